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
)

// parseAppKey reads Laravel's APP_KEY: "base64:" and the key in base64, or the key itself, of 32
// bytes, or of 16 for AES-128. Errors do not show it.
func parseAppKey(text string) ([]byte, error) {
	key := []byte(text)
	if encoded, ok := strings.CutPrefix(text, "base64:"); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, errors.New("the key after base64: is not base64")
		}
	}
	if len(key) != 32 && len(key) != 16 {
		return nil, fmt.Errorf("the key has %d bytes, expected 32, or 16 for AES-128", len(key))
	}
	return key, nil
}

var (
	errNotEncrypted = errors.New("neither a PHP object nor encrypted text, expected base64 of JSON with iv, value, and mac or tag")
	errOtherKey     = errors.New("encrypted with another APP_KEY, or altered since: expected a mac or tag that fits, and a serialized string")
)

// decryptCommand returns the serialized object of a job that is ShouldBeEncrypted. The text is
// what Laravel's Encrypter makes: AES-CBC with a mac, or AES-GCM with a tag.
func decryptCommand(key []byte, text string) (string, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return "", err
	}
	var sealed struct{ IV, Value, MAC, Tag string }
	document, err := base64.StdEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(document, &sealed) != nil {
		return "", errNotEncrypted
	}
	iv, err1 := base64.StdEncoding.DecodeString(sealed.IV)
	value, err2 := base64.StdEncoding.DecodeString(sealed.Value)
	tag, err3 := base64.StdEncoding.DecodeString(sealed.Tag)
	if len(iv) == 0 || len(value) == 0 || errors.Join(err1, err2, err3) != nil {
		return "", errNotEncrypted
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(sealed.IV + sealed.Value))
	var plain []byte
	if len(tag) > 0 {
		plain = openGCM(block, iv, value, tag)
	} else if hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(sealed.MAC)) {
		plain = openCBC(block, iv, value)
	}
	// The Encrypter serializes what it is given, and that is the serialized object.
	p := &parser{text: string(plain)}
	object, ok := p.value().(string)
	if p.err != nil || !ok || p.at < len(p.text) {
		return "", errOtherKey
	}
	return object, nil
}

// openGCM returns nil if the tag does not fit.
func openGCM(block cipher.Block, iv, value, tag []byte) []byte {
	gcm, err := cipher.NewGCM(block)
	if err != nil || len(iv) != gcm.NonceSize() || len(tag) != gcm.Overhead() {
		return nil
	}
	plain, _ := gcm.Open(nil, iv, append(value, tag...), nil)
	return plain
}

// openCBC returns nil if lengths or the padding, PKCS #7, are wrong.
func openCBC(block cipher.Block, iv, value []byte) []byte {
	size := block.BlockSize()
	if len(iv) != size || len(value)%size != 0 {
		return nil
	}
	plain := make([]byte, len(value))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, value)
	padding := plain[len(plain)-1:]
	text, ok := bytes.CutSuffix(plain, bytes.Repeat(padding, int(padding[0])))
	if !ok || len(text) == len(plain) {
		return nil
	}
	return text
}
