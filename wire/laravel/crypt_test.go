package laravel

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe/internal/test/harness"
)

// What PHP encrypts is decrypted, whatever the cipher, and not with another key.
func TestPHPEncrypted(t *testing.T) {
	count := 0
	for line := range bytes.Lines(php(t, "", "testdata/encrypt.php")) {
		var w struct {
			Cipher, Key, Text string
			Object            []byte
		}
		harness.OK(t, json.Unmarshal(line, &w))
		key := harness.Must(parseAppKey(w.Key))(t)
		if got, err := decryptCommand(key, w.Text); err != nil || got != string(w.Object) {
			t.Errorf("%s: %q, %v, want %q", w.Cipher, got, err, w.Object)
		}
		key[0]++
		if got, err := decryptCommand(key, w.Text); !errors.Is(err, errOtherKey) || got != "" {
			t.Errorf("%s: %q, %v with another key", w.Cipher, got, err)
		}
		count++
	}
	harness.Equal(t, "texts", count, 132)
}

// These are of illuminate/encryption 8.83.26.
func TestDecryptCommand(t *testing.T) {
	key := []byte(strings.Repeat("k", 32))
	for cipher, text := range map[string]string{
		"aes-256-cbc": "eyJpdiI6InViREdrdlVMbHkxODdtQXdEdVUrb0E9PSIsInZhbHVlIjoiRkpnQjZKYnhadCszQVRNRHRlOVMwNVVhQ01ZejhHM0MwRjJRWVJrcW0rZHdyVkZwaXVTOVNramlqWXdhazBFWSIsIm1hYyI6Ijc2NzZhNjZkZWM0YmNkYzA0MjI2MTQyNTY2NzcwM2EwOGU2YWU5NGFiMWUyNzNiYjkwZDZkZjkxODJhOTBkNDMiLCJ0YWciOiIifQ==",
		"aes-256-gcm": "eyJpdiI6Iml2QUhQNEZ6V2lQQVk4VjgiLCJ2YWx1ZSI6IkxTazNSempNOFRneE1wMzMzL3RGUE9ETlZsSEJ0dzdYVnpVbWxEVkJLMDZwbGYzbG0zcTQiLCJtYWMiOiIiLCJ0YWciOiJRdnkwd1ZJQi9qbmpySk1jMW5xQzZBPT0ifQ==",
	} {
		if got, err := decryptCommand(key, text); err != nil || got != `O:8:"stdClass":1:{s:1:"a";i:1;}` {
			t.Errorf("%s: %q, %v", cipher, got, err)
		}
	}
}

func TestParseAppKey(t *testing.T) {
	raw := strings.Repeat("k", 31)
	for text, want := range map[string]string{
		raw + "s": raw + "s",
		raw[:16]:  raw[:16],
		"base64:" + base64.StdEncoding.EncodeToString([]byte(raw+"s")): raw + "s",
	} {
		if got, err := parseAppKey(text); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":           "the key has 0 bytes, expected 32, or 16 for AES-128",
		raw:          "the key has 31 bytes, expected 32, or 16 for AES-128",
		"base64:a2s": "the key after base64: is not base64",
	} {
		if _, err := parseAppKey(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Each text is signed, so it is what it contains that is wrong.
func TestDecryptCommandErrors(t *testing.T) {
	key := []byte(strings.Repeat("k", 32))
	block := harness.Must(aes.NewCipher(key))(t)
	encode := base64.StdEncoding.EncodeToString
	seal := func(iv, value, tag string) string {
		mac := hmac.New(sha256.New, key)
		fmt.Fprint(mac, iv, value)
		return encode(fmt.Appendf(nil, `{"iv":%q,"value":%q,"mac":%q,"tag":%q}`, iv, value, hex.EncodeToString(mac.Sum(nil)), tag))
	}
	iv := make([]byte, aes.BlockSize)
	cbc := func(plain string) string {
		value := make([]byte, len(plain))
		cipher.NewCBCEncrypter(block, iv).CryptBlocks(value, []byte(plain))
		return seal(encode(iv), encode(value), "")
	}
	const object, full = `s:2:"O:";`, `s:8:"O:012345";` // 9 and 15 bytes
	if got, err := decryptCommand(key, cbc(object+strings.Repeat("\x07", 7))); got != "O:" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	good := harness.Must(base64.StdEncoding.DecodeString(cbc(full + "\x01")))(t)
	for what, c := range map[string]struct {
		text string
		want error
	}{
		"no base64":          {"O:", errNotEncrypted},
		"no JSON":            {encode([]byte("O:")), errNotEncrypted},
		"other JSON":         {encode([]byte(`{"iv":1}`)), errNotEncrypted},
		"nothing":            {encode([]byte(`{}`)), errNotEncrypted},
		"iv no base64":       {seal("!", encode(iv), ""), errNotEncrypted},
		"value no base64":    {seal(encode(iv), "!", ""), errNotEncrypted},
		"value empty":        {seal(encode(iv), "", ""), errNotEncrypted},
		"tag no base64":      {seal(encode(iv), encode(iv), "!"), errNotEncrypted},
		"iv short":           {seal(encode(iv[1:]), encode(iv), ""), errOtherKey},
		"value no blocks":    {seal(encode(iv), encode(iv[1:]), ""), errOtherKey},
		"GCM iv long":        {seal(encode(iv), encode(iv), encode(iv)), errOtherKey},
		"GCM tag short":      {seal(encode(iv[:12]), encode(iv), encode(iv[1:])), errOtherKey},
		"GCM tag wrong":      {seal(encode(iv[:12]), encode(iv), encode(iv)), errOtherKey},
		"mac wrong":          {encode(bytes.Replace(good, []byte(`"mac":"`), []byte(`"mac":"0`), 1)), errOtherKey},
		"no mac":             {encode(bytes.Replace(good, []byte(`"mac"`), []byte(`"cam"`), 1)), errOtherKey},
		"padding 0":          {cbc(full + "\x00"), errOtherKey},
		"padding 17":         {cbc(full + "\x11"), errOtherKey},
		"padding differs":    {cbc(object + "\x01\x07\x07\x07\x07\x07\x07"), errOtherKey},
		"serialized once":    {cbc("O:8:\"stdClass\":0:{}" + strings.Repeat("\x0d", 13)), errOtherKey},
		"more than a string": {cbc(object + ";;;;;;\x01"), errOtherKey},
		"not serialized":     {cbc("0123456789abcde\x01"), errOtherKey},
	} {
		if got, err := decryptCommand(key, c.text); !errors.Is(err, c.want) || got != "" {
			t.Errorf("%s: %q, %v, want %v", what, got, err, c.want)
		}
	}
	if _, err := decryptCommand(key[1:], cbc(full+"\x01")); err == nil {
		t.Error("a key of 31 bytes")
	}
}
