package inspect

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	"github.com/troupehq/troupe/internal/wirejson"
)

// maxBacktrace bounds what the few bytes of a backtrace may unpack to.
const maxBacktrace = 8 << 20

// ErrorBacktrace returns the lines of the last failure, nil if the job does not
// keep them. It reads what any version of Sidekiq writes: a packed array, with
// line feeds in it up to 7.2, or a plain one.
func (r *JobRecord) ErrorBacktrace() ([]string, error) {
	raw, ok := r.Payload.Get("error_backtrace")
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	plain := []byte(raw)
	if packed, ok := wirejson.Text(raw); ok {
		var err error
		if plain, err = inflate(packed); err != nil {
			return nil, fmt.Errorf("read error_backtrace: %w", err)
		}
	}
	lines := []string{}
	for _, v := range wirejson.Elements(bytes.TrimSpace(plain)) {
		line, ok := wirejson.Text(v)
		if !ok {
			line = string(v)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

func inflate(packed string) ([]byte, error) {
	packed = strings.NewReplacer("\n", "", "\r", "").Replace(packed)
	data, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, err
	}
	z, err := zlib.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxBacktrace+1))
	if err == nil && len(plain) > maxBacktrace {
		err = fmt.Errorf("more than %d bytes", maxBacktrace)
	}
	return plain, err
}
