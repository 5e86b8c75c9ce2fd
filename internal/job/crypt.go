package job

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/wirejson"
	"github.com/troupehq/troupe/internal/words"
)

// This file is about the last argument of a job that is encrypted. In Redis it is one string,
//
//	troupe.enc.1:VERSION:DATA
//
// where DATA is the unpadded base64url of nonce (12 bytes), ciphertext and tag (16 bytes) of AES-256-GCM. The plaintext
// is the JSON of the argument, the additional data "troupe.args.1", the version and the class with a NUL between them:
// so it opens for no other class. The class of a wrapped job is what it wraps. The jid is no part of it: gems that
// put jobs off give them new ones.

// sealField has Seal seal p's last argument. A job in Redis does not have it.
const sealField = "t_seal"

const (
	sealPrefix = "troupe.enc.1:"
	sealScope  = "troupe.args.1"
	nonceSize  = 12
	tagSize    = 16
)

// Crypt seals and opens last arguments. Nil has no keys. It is safe for concurrent use.
type Crypt struct {
	keys   map[string]cipher.AEAD // by version
	active string
	known  string             // what is told of the keys
	random func(nonce []byte) // fills it
}

var sealText = base64.RawURLEncoding.Strict()

// NewCrypt returns nil for an Encryption without keys.
func NewCrypt(e troupe.Encryption) (*Crypt, error) {
	if err := e.Validate(); err != nil || len(e.Keys) == 0 {
		return nil, err
	}
	c := &Crypt{keys: map[string]cipher.AEAD{}, active: strconv.Itoa(e.Sealing()), known: e.String()}
	c.random = func(nonce []byte) { rand.Read(nonce) } // never fails: see crypto/rand
	for version, key := range e.Keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("Encryption.Keys[%d]: %w", version, err)
		}
		if c.keys[strconv.Itoa(version)], err = cipher.NewGCM(block); err != nil {
			return nil, fmt.Errorf("Encryption.Keys[%d]: %w", version, err)
		}
	}
	return c, nil
}

// MarkSealed has Seal seal p's last argument.
func MarkSealed(p *troupe.Payload) { p.Set(sealField, json.RawMessage("true")) }

// IsMarked tells whether Seal would seal p's last argument.
func IsMarked(p *troupe.Payload) bool {
	_, ok := p.Get(sealField)
	return ok
}

// ErrNoKeys is a job that is to be sealed where there are no keys.
var ErrNoKeys = errors.New("no keys to seal its last argument with")

// Seal seals the last argument of p if it is marked. What is sealed stays as it is, and so does a job without
// arguments.
func (c *Crypt) Seal(p *troupe.Payload) error {
	if !IsMarked(p) {
		return nil
	}
	args := p.Args()
	last := lastOf(args)
	if _, _, sealed := sealedIn(args); last == nil || sealed {
		p.Delete(sealField)
		return nil
	}
	if c == nil {
		return ErrNoKeys
	}
	nonce := make([]byte, nonceSize, nonceSize+len(last)+tagSize)
	c.random(nonce)
	data := c.keys[c.active].Seal(nonce, nonce, last, scope(p, c.active))
	begin := bytes.LastIndex(args, last)
	out := append(make([]byte, 0, begin+sealText.EncodedLen(len(data))+40), args[:begin]...)
	out = append(append(append(out, '"'), sealPrefix...), c.active...)
	out = sealText.AppendEncode(append(out, ':'), data)
	p.Set("args", append(out, `"]`...))
	p.Delete(sealField)
	return nil
}

// Open puts the last argument of p in place of the sealed text, if it is sealed. The error is a *troupe.SealedError.
func (c *Crypt) Open(p *troupe.Payload) error {
	args, _ := p.Get("args")
	begin, end, ok := sealedIn(args)
	if !ok {
		return nil
	}
	version, data, _ := strings.Cut(string(args[begin+len(sealPrefix):end]), ":")
	fault := func(reason string) error {
		return &troupe.SealedError{Version: words.Text(words.Short(version, 40)), Reason: reason}
	}
	if c == nil {
		return fault("this process has no keys")
	}
	key := c.keys[version]
	if key == nil {
		return fault("this process has " + c.known)
	}
	raw, err := sealText.DecodeString(data)
	if err != nil || len(raw) < nonceSize+tagSize {
		return fault("it is no base64url of a nonce, a ciphertext and a tag")
	}
	clear, err := key.Open(nil, raw[:nonceSize], raw[nonceSize:], scope(p, version))
	switch {
	case err != nil:
		return fault("it was sealed with another key of this version or for another class, or altered since")
	case !json.Valid(clear):
		return fault("what was sealed is no JSON")
	}
	out := append(make([]byte, 0, begin+len(clear)), args[:begin-1]...)
	p.Set("args", append(append(out, clear...), ']'))
	return nil
}

// scope is the additional data of p's last argument.
func scope(p *troupe.Payload, version string) []byte {
	return []byte(sealScope + "\x00" + version + "\x00" + cmp.Or(p.Wrapped(), p.Class()))
}

// sealedIn tells where in an array of arguments the text of the last one is, without its quotes, if it is sealed.
func sealedIn(args []byte) (begin, end int, ok bool) {
	rest, array := cutLast(args, ']') // without a call that is dear: each job comes here
	rest, text := cutLast(rest, '"')
	if !array || !text {
		return 0, 0, false
	}
	begin = bytes.LastIndexByte(rest, '"') + 1
	if begin < 2 || rest[begin-2] == '\\' || !bytes.HasPrefix(rest[begin:], []byte(sealPrefix)) || bytes.IndexByte(rest[begin:], '\\') >= 0 {
		return 0, 0, false
	}
	return begin, len(rest), true
}

// cutLast cuts the last byte off JSON, behind which may be space, if it is this one.
func cutLast(raw []byte, last byte) ([]byte, bool) {
	n := len(raw)
	for n > 0 && raw[n-1] <= ' ' {
		n--
	}
	if n == 0 || raw[n-1] != last {
		return nil, false
	}
	return raw[:n-1], true
}

// lastOf is the last element of an array; nil if it has none.
func lastOf(args []byte) json.RawMessage {
	list := wirejson.Elements(args)
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// Sealed tells whether the last one of an array of arguments is sealed.
func Sealed(args []byte) bool {
	_, _, ok := sealedIn(args)
	return ok
}

// ShowSealed is an array of arguments for people: in place of a sealed one it says so, with the version of its key.
func ShowSealed(args json.RawMessage) json.RawMessage {
	begin, end, ok := sealedIn(args)
	if !ok {
		return args
	}
	shown := "[sealed]"
	version, _, _ := strings.Cut(string(args[begin+len(sealPrefix):end]), ":")
	if _, err := strconv.ParseUint(version, 10, 64); err == nil {
		shown = "[sealed (key version " + version + ")]"
	}
	return slices.Concat(args[:begin], []byte(shown), []byte(`"]`))
}
