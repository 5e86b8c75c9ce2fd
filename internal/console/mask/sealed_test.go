package mask

import (
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/inspect"
	"github.com/troupehq/troupe/internal/test/harness"
)

// A sealed argument is shown as one, by each rule and also in the jobs of a chain.
func TestSealedArgumentsAreShownAsSealed(t *testing.T) {
	raw := `{"class":"A","queue":"q","args":[1,"troupe.enc.1:12:abc"],"t_next":["{\"class\":\"B\",\"queue\":\"q\",\"args\":[\"troupe.enc.1:3:abc\"]}"]}`
	p, err := troupe.ParsePayload([]byte(raw))
	harness.OK(t, err)
	r := &inspect.JobRecord{Payload: p, Raw: raw, Queue: "q"}
	for how, want := range map[string]string{
		Mask: `[1,"[sealed (key version 12)]"]`, Show: `[1,"[sealed (key version 12)]"]`, Hide: `["[2 hidden]"]`,
	} {
		m := New(how, nil, nil)
		harness.Equal(t, how, string(m.Summary(r).Args), want)
		if text := m.Bytes(r); how == Mask && (strings.Contains(text, "troupe.enc") || !strings.Contains(text, "key version 3")) {
			t.Errorf("%s: the payload is %s", how, text)
		}
		harness.Equal(t, how+": args of a periodic job", strings.Contains(string(m.Args([]byte(`["troupe.enc.1:12:abc"]`), "A")), "troupe.enc"), false)
	}
}
