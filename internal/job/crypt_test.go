package job

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
)

func testKeys(active int, versions ...int) troupe.Encryption {
	e := troupe.Encryption{Active: active, Keys: map[int][]byte{}}
	for _, v := range versions {
		e.Keys[v] = bytes.Repeat([]byte{byte(v)}, troupe.KeySize)
	}
	return e
}

func newCrypt(t testing.TB, e troupe.Encryption) *Crypt {
	t.Helper()
	c, err := NewCrypt(e)
	harness.OK(t, err)
	return c
}

func parse(t testing.TB, raw string) *troupe.Payload {
	t.Helper()
	p, err := troupe.ParsePayload([]byte(raw))
	harness.OK(t, err)
	return p
}

// The text was made by Ruby, with this key and nonce:
//
//	c = OpenSSL::Cipher.new("aes-256-gcm").encrypt
//	c.key = (0..31).to_a.pack("C*"); iv = c.iv = (100..111).to_a.pack("C*")
//	c.auth_data = "troupe.args.1\0" + "7\0" + "Charge"
//	data = c.update(JSON.generate({"card" => "4711", "ü" => [1, nil]})) + c.final
//	"troupe.enc.1:7:" + Base64.urlsafe_encode64(iv + data + c.auth_tag, padding: false)
const (
	goldenClear  = `[1,"a]\"",{"card":"4711","ü":[1,null]}]`
	goldenSealed = `[1,"a]\"","troupe.enc.1:7:ZGVmZ2hpamtsbW5vMzm9BwuNdKQcVmjZ60dG34F-JDDQXd8c0r3AFYZLtJUMQl-W3SVvLpq6z-p8"]`
)

func TestSealedTextIsAsRubyWritesIt(t *testing.T) {
	key := make([]byte, troupe.KeySize)
	for i := range key {
		key[i] = byte(i)
	}
	c := newCrypt(t, troupe.Encryption{Keys: map[int][]byte{7: key}})
	c.random = func(nonce []byte) {
		for i := range nonce {
			nonce[i] = byte(100 + i)
		}
	}
	p := parse(t, `{"class":"Charge","args":`+goldenClear+`}`)
	MarkSealed(p)
	harness.OK(t, c.Seal(p))
	harness.Equal(t, "sealed", string(p.Bytes()), `{"class":"Charge","args":`+goldenSealed+`}`)
	harness.OK(t, c.Open(p))
	harness.Equal(t, "opened", string(p.Args()), goldenClear)
}

func TestSealAndOpen(t *testing.T) {
	c := newCrypt(t, testKeys(0, 1, 2))
	for _, args := range []string{
		`["s"]`, `[1]`, `[null]`, `[{"a":"]"}]`, `[[1,[2]]]`, `["x","x"]`, `[1,1]`, `[{"a":1},{"a":1}]`, `[""]`, `["\"]"]`, `["troupe.enc.1:","y"]`,
	} {
		p := parse(t, `{"class":"A","args":`+args+`}`)
		MarkSealed(p)
		harness.OK(t, c.Seal(p))
		sealed := string(p.Args())
		if !Sealed(p.Args()) || !strings.Contains(sealed, `"troupe.enc.1:2:`) {
			t.Errorf("%s became %s", args, sealed)
		}
		MarkSealed(p)
		harness.OK(t, c.Seal(p))
		harness.Equal(t, "sealed twice", string(p.Args()), sealed)
		harness.Equal(t, "marked", IsMarked(p), false)
		harness.OK(t, c.Open(p))
		harness.Equal(t, "opened", string(p.Args()), args)
	}
	empty := parse(t, `{"class":"A","args":[],"t_seal":true}`)
	harness.OK(t, c.Seal(empty))
	harness.Equal(t, "without arguments", string(empty.Bytes()), `{"class":"A","args":[]}`)
	var none *Crypt
	if err := none.Seal(parse(t, `{"class":"A","args":[1],"t_seal":true}`)); !errors.Is(err, ErrNoKeys) {
		t.Errorf("sealed without keys: %v", err)
	}
	harness.OK(t, none.Seal(parse(t, `{"class":"A","args":[1]}`)))
	harness.OK(t, none.Open(parse(t, `{"class":"A","args":["x"]}`)))
}

func sealed(t testing.TB, e troupe.Encryption, raw string) *troupe.Payload {
	t.Helper()
	p := parse(t, raw)
	MarkSealed(p)
	harness.OK(t, newCrypt(t, e).Seal(p))
	return p
}

func TestOpenRefuses(t *testing.T) {
	p := sealed(t, testKeys(1, 1), `{"class":"Wrapper","wrapped":"A","args":["x",{"secret":1}]}`)
	args := string(p.Args())
	harness.OK(t, newCrypt(t, testKeys(2, 1, 2)).Open(p.Clone()))
	for _, c := range []struct {
		name, raw string
		keys      *Crypt
		want      string
	}{
		{"no keys", string(p.Bytes()), nil, "the last argument is sealed (key version 1) and was not opened: this process has no keys"},
		{"other versions", string(p.Bytes()), newCrypt(t, testKeys(0, 2, 3)), "(key version 1) and was not opened: this process has key versions 2, 3; 3 seals"},
		{"another class", `{"class":"Wrapper","wrapped":"B","args":` + args + `}`, nil, "another key of this version or for another class"},
		{"another version", `{"class":"A","args":` + strings.Replace(args, "enc.1:1:", "enc.1:2:", 1) + `}`, nil, "another key"},
		{"cut", `{"class":"A","args":["troupe.enc.1:1:AAAA"]}`, nil, "no base64url of"},
		{"no data", `{"class":"A","args":["troupe.enc.1:1"]}`, nil, "no base64url of"},
		{"padded", `{"class":"A","args":` + strings.TrimSuffix(args, `"]`) + `=="]}`, nil, "no base64url of"},
		{"no version", `{"class":"A","args":["troupe.enc.1:"]}`, nil, "(key version ) and was not opened: this process has key"},
	} {
		keys := c.keys
		if keys == nil && c.name != "no keys" {
			keys = newCrypt(t, testKeys(0, 1, 2))
		}
		q := parse(t, c.raw)
		before := string(q.Bytes())
		err := keys.Open(q)
		if _, ok := errors.AsType[*troupe.SealedError](err); !ok || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		harness.Equal(t, c.name+": left", string(q.Bytes()), before)
	}
	for i := range len(args) - 40 { // one bit of the data
		altered := []byte(args)
		at := len(args) - 3 - i
		if altered[at]++; altered[at] == ':' || altered[at] == '"' || altered[at] == '\\' {
			continue
		}
		q := parse(t, fmt.Sprintf(`{"class":"Wrapper","wrapped":"A","args":%s}`, altered))
		if err := newCrypt(t, testKeys(0, 1)).Open(q); err == nil {
			t.Errorf("opened %s", altered)
		}
	}
}

func TestShowSealed(t *testing.T) {
	for args, want := range map[string]string{
		`[1,"troupe.enc.1:12:abc"]`: `[1,"[sealed (key version 12)]"]`, `["troupe.enc.1:a b:abc"]`: `["[sealed]"]`, `["x"]`: `["x"]`, `[]`: `[]`,
		`["troupe.enc.1:1:abc",2]`: `["troupe.enc.1:1:abc",2]`, `["a\"troupe.enc.1:1:abc"]`: `["a\"troupe.enc.1:1:abc"]`, ``: ``, `"]`: `"]`,
		"[1, \"troupe.enc.1:1:abc\" ]\n": `[1, "[sealed (key version 1)]"]`, `[{"a":"troupe.enc.1:1:abc"}]`: `[{"a":"troupe.enc.1:1:abc"}]`,
	} {
		harness.Equal(t, args, string(ShowSealed([]byte(args))), want)
	}
}

func FuzzOpen(f *testing.F) {
	p := sealed(f, testKeys(0, 1), `{"class":"A","args":["x",{"secret":1}]}`)
	f.Add(string(p.Args()), "A")
	for _, s := range []string{`["troupe.enc.1:1:"]`, `["troupe.enc.1:`, `["]`, `["a\"troupe.enc.1:1:x"]`, "[\"troupe.enc.1:\xff:x\"]", `[ "troupe.enc.1:1:` + hex.EncodeToString(make([]byte, 40)) + `" ]`, ""} {
		f.Add(s, "A")
	}
	keys := newCrypt(f, testKeys(0, 1))
	f.Fuzz(func(t *testing.T, args, class string) {
		q := new(troupe.Payload)
		q.SetString("class", class)
		q.Set("args", []byte(args))
		_ = ShowSealed([]byte(args))
		if err := keys.Open(q); err != nil {
			if _, ok := errors.AsType[*troupe.SealedError](err); !ok || err.Error() == "" {
				t.Fatalf("%T %v", err, err)
			}
		}
	})
}

// A job with an argument of 1 KB, sealed and opened; and one that is not sealed, looked at.
func BenchmarkCrypt(b *testing.B) {
	c := newCrypt(b, testKeys(0, 1))
	raw := []byte(`{"class":"A","args":[1,"` + strings.Repeat("x", 1024) + `"]}`)
	for name, seal := range map[string]bool{"sealed": true, "in clear": false} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, _ := troupe.ParsePayload(raw)
				if seal {
					MarkSealed(p)
					_ = c.Seal(p)
				}
				_ = c.Open(p)
			}
		})
	}
}
