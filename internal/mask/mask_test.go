package mask

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestArgs(t *testing.T) {
	deep := strings.Repeat("[", 60) + `"s"` + strings.Repeat("]", 60)
	for _, c := range []struct{ args, how, want string }{
		{`[12345678901234567890,1.50,"a",null,{}]`, Mask, `[12345678901234567890,1.50,"a",null,{}]`},
		{`[{"user":"x","Password":"p","api_key":1,"n":{"accessToken":{"a":1}},"list":[{"card-number":4}]}]`, Mask,
			`[{"user":"x","Password":"[masked]","api_key":"[masked]","n":{"accessToken":"[masked]"},"list":[{"card-number":"[masked]"}]}]`},
		{`[{"password":"p"},2]`, Hide, `["[2 hidden]"]`},
		{`[{"password":"p"}]`, Show, `[{"password":"p"}]`},
		{deep, Mask, strings.Repeat("[", 51) + Masked + strings.Repeat("]", 51)},
	} {
		if got := string(Args(json.RawMessage(c.args), c.how)); got != c.want {
			t.Errorf("%s %s: %s, expected %s", c.how, c.args, got, c.want)
		}
	}
}
