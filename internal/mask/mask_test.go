package mask

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
)

func TestArgs(t *testing.T) {
	deep := strings.Repeat("[", 60) + `"s"` + strings.Repeat("]", 60)
	for _, c := range []struct{ args, how, want string }{
		{`[12345678901234567890,1.50,"a",null,{}]`, Mask, `[12345678901234567890,1.50,"a",null,{}]`},
		{`[{"user":"x","Password":"p","api_key":1,"n":{"accessToken":{"a":1}},"list":[{"card-number":4}]}]`, Mask,
			`[{"user":"x","Password":"[masked]","api_key":"[masked]","n":{"accessToken":"[masked]"},"list":[{"card-number":"[masked]"}]}]`},
		{`[{"password":"p"},2]`, Hide, `["[2 hidden]"]`},
		{`[{"password":"p"}]`, Show, `[{"password":"p"}]`},
		{`["{\"user\":1,\"password\": \"p\"","https://x/?a=1&api_key=2","the password is wrong","token-bucket"]`, Mask,
			`["[masked]","[masked]","the password is wrong","token-bucket"]`},
		{deep, Mask, strings.Repeat("[", 51) + Masked + strings.Repeat("]", 51)},
	} {
		if got := string(Args(json.RawMessage(c.args), c.how)); got != c.want {
			t.Errorf("%s %s: %s, expected %s", c.how, c.args, got, c.want)
		}
	}
}

func TestRules(t *testing.T) {
	r := Rules{Keys: []string{"Patient_Name"}, Args: map[string][]int{"Pay": {1, 3}}}
	for _, c := range []struct{ args, how, class, want string }{
		{`[1, 12345678901234567890 ,"three",{"patientName":"x","b":2.50}]`, Mask, "Pay", `["[masked]",12345678901234567890,"[masked]",{"patientName":"[masked]","b":2.50}]`},
		{`[1,{"password":"p"}]`, Mask, "Other", `[1,{"password":"[masked]"}]`},
		{`[]`, Mask, "Pay", `[]`},
		{`{"no":"array"}`, Mask, "Pay", `null`},
		{`[1]`, Show, "Pay", `[1]`},
	} {
		if got := string(r.Mask(json.RawMessage(c.args), c.how, c.class)); got != c.want {
			t.Errorf("%s of %s: %s, expected %s", c.args, c.class, got, c.want)
		}
	}
}

func TestPayload(t *testing.T) {
	p, err := troupe.ParsePayload([]byte(`{"class":"A","args":[{"token":1},12345678901234567890],"cattr":{"user":1,"secret":2},"api_key":"k","retry":true}`))
	if err != nil {
		t.Fatal(err)
	}
	for how, want := range map[string]string{
		Mask: `{"class":"A","args":[{"token":"[masked]"},12345678901234567890],"cattr":{"user":1,"secret":"[masked]"},"api_key":"[masked]","retry":true}`,
		Hide: `{"class":"A","args":["[2 hidden]"],"cattr":{"user":1,"secret":"[masked]"},"api_key":"[masked]","retry":true}`,
		Show: string(p.Bytes()),
	} {
		if got := string(Payload(p, how).Bytes()); got != want {
			t.Errorf("%s: %s, expected %s", how, got, want)
		}
	}
}
