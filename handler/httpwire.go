package handler

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// sign returns the value of Troupe-Signature: "t=SECONDS,v1=HEX", where HEX is
// the HMAC-SHA256, with the secret, of SECONDS, a dot and the body. SECONDS is
// the time of this request, so that a receiver can refuse one that somebody has
// recorded and sends again later.
func sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(t + "."))
	mac.Write(body)
	return fmt.Sprintf("t=%s,v1=%x", t, mac.Sum(nil))
}

// headerText makes any text one value of a header.
func headerText(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// answerText is what the error says of an answer besides its status.
func answerText(res *http.Response, body []byte) string {
	if to := res.Header.Get("Location"); to != "" && res.StatusCode/100 == 3 {
		return "redirect to " + clipText([]byte(to), 1<<10) + " not followed"
	}
	return clipText(body, tailBytes)
}

// clipText returns the beginning of b, at most n bytes and the last character
// whole, as valid UTF-8 without blanks around.
func clipText(b []byte, n int) string {
	if len(b) > n {
		b = b[:n]
		for i := 0; i < 3 && len(b) > 0 && b[len(b)-1] >= 0x80; i++ {
			last := b[len(b)-1]
			b = b[:len(b)-1]
			if last >= 0xc0 { // where the character began
				break
			}
		}
	}
	return strings.TrimSpace(strings.ToValidUTF8(string(b), "\ufffd"))
}
