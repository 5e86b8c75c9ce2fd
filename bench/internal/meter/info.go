// Package meter reads from outside what a Redis server has done: commands, reads
// of its clients' sockets, processor time.
package meter

import (
	"bufio"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Info is what INFO tells, counted since the server started.
type Info struct {
	// Calls is all commands, those inside scripts included: INFO does not tell
	// them apart. Monitor does.
	Calls int64
	// Reads is how often the server has read from a client. A client that sends
	// and then waits causes one, so it is the number of round trips; a pipeline
	// of more than 16 KB counts as several.
	Reads int64
	// CPU is the time of the server process, user and system.
	CPU time.Duration
}

// Read asks the server.
func Read(ctx context.Context, c *redis.Client) (Info, error) {
	text, err := c.Info(ctx, "stats", "cpu").Result()
	if err != nil {
		return Info{}, err
	}
	return parse(text), nil
}

func parse(text string) (in Info) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch key {
		case "total_commands_processed":
			in.Calls, _ = strconv.ParseInt(value, 10, 64)
		case "total_reads_processed":
			in.Reads, _ = strconv.ParseInt(value, 10, 64)
		case "used_cpu_sys", "used_cpu_user":
			s, _ := strconv.ParseFloat(value, 64)
			in.CPU += time.Duration(s * 1e9)
		}
	}
	return in
}

// Sub is what was done since an earlier reading.
func (in Info) Sub(before Info) Info {
	return Info{in.Calls - before.Calls, in.Reads - before.Reads, in.CPU - before.CPU}
}
