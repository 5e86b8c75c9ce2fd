package web

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/troupehq/troupe/internal/keys"
	"github.com/troupehq/troupe/internal/words"
)

// flashCookie carries the text of an action to the next page.
const flashCookie = "troupe-said"

// sign makes a text that only a dashboard of this Redis can have made. What it is for is a part of it.
func (h *Handler) sign(purpose string, text []byte) string {
	return base64.RawURLEncoding.EncodeToString(text) + "." + h.digest(purpose, text)
}

// verify returns a text that sign has made for the same purpose.
func (h *Handler) verify(purpose, signed string) (text []byte, ok bool) {
	encoded, digest, _ := strings.Cut(signed, ".")
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	return text, err == nil && hmac.Equal([]byte(digest), []byte(h.digest(purpose, text)))
}

// digest is a name for a text that tells nothing of it. It has a key, since who knows all of a job but
// what is masked could find that out from a plain digest.
func (h *Handler) digest(purpose string, text []byte) string {
	m := hmac.New(sha256.New, []byte(h.secret()))
	_, _ = m.Write([]byte(purpose + "\x00")) // it never fails
	_, _ = m.Write(text)
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:18])
}

// secret is the key that the dashboards of a Redis share, so that pages from before a restart still
// name their rows. As long as Redis cannot tell it, and read-only if there is none, it is one of this
// process.
func (h *Handler) secret() string {
	h.keyMu.Lock()
	defer h.keyMu.Unlock()
	if h.keyKnown {
		return h.key
	}
	ctx, cancel := context.WithTimeout(h.ctx, auditTime)
	defer cancel()
	if !h.options.ReadOnly {
		h.options.Redis.SetNX(ctx, keys.WebKey, h.key, 0) // what fails is told by Get
	}
	if key, err := h.options.Redis.Get(ctx, keys.WebKey).Result(); err == nil && key != "" {
		h.key, h.keyKnown = key, true
	}
	return h.key
}

// mostFlash is how many bytes of a sentence are carried.
const mostFlash = 1500

func (r *request) setFlash(s said) {
	s.Counts, s.Text = nil, words.Short(s.Text, mostFlash)
	text, _ := json.Marshal(s) // two strings
	http.SetCookie(r.w, &http.Cookie{
		Name: flashCookie, Value: r.sign(flashCookie, text), Path: r.base + "/", MaxAge: 60,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.secure,
	})
}

// flash is what the last action has said. It is shown once.
func (r *request) flash() *said {
	c, err := r.Cookie(flashCookie)
	if err != nil || r.Method != http.MethodGet {
		return nil
	}
	http.SetCookie(r.w, &http.Cookie{Name: flashCookie, Path: r.base + "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode})
	var s said
	if text, ok := r.verify(flashCookie, c.Value); !ok || json.Unmarshal(text, &s) != nil {
		return nil
	}
	return &s
}
