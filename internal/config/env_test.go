package config

import (
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/internal/test/harness"
)

const envFile = `
env: [TROUPE_TEST_ALL]
handlers:
  A:
    exec: [sh, -c, 'test "$TROUPE_TEST_ALL$TROUPE_TEST_A$TROUPE_TEST_B$TROUPE_TEST_C" = "1A" || exit 1']
    env:
      - TROUPE_TEST_A
      - TROUPE_TEST_NOT_SET
  B: {exec: [sh, -c, 'test "$TROUPE_TEST_ALL$TROUPE_TEST_A$TROUPE_TEST_B$TROUPE_TEST_C" = "1B" || exit 1'], env: [TROUPE_TEST_B]}
`

func TestProgramsGetTheVariablesOfTheFile(t *testing.T) {
	for name, value := range map[string]string{"ALL": "1", "A": "A", "B": "B", "C": "C"} {
		t.Setenv("TROUPE_TEST_"+name, value)
	}
	inDir(t, "troupe.yml", envFile)
	s := load(t, Flags{}, nil)
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	c := harness.Must(s.Daemon(rdb, zerolog.Nop(), io.Discard))(t)
	for _, class := range []string{"A", "B"} {
		e, _ := c.Registry.Lookup(class)
		p := harness.Must(troupe.ParsePayload([]byte(`{"class":"` + class + `"}`)))(t)
		if err := e.Handler.Perform(t.Context(), p); err != nil {
			t.Errorf("%s: %v", class, err)
		}
	}
}

func TestSecretsAreNotForPrograms(t *testing.T) {
	const hook = "  Hook: {http: {url: {env: URL}, headers: {X-Key: {env: KEY}}, secret: {env: SECRET}}}\n"
	vars := map[string]string{
		"URL": "https://h/", "KEY": "k", "SECRET": "hunter2", "OTHER": "o",
		"REDIS_URL": "redis://:hunter2@h/0", "MINE": "redis://:hunter2@h/0", "OPEN": "redis://h/0",
	}
	for _, tt := range []struct {
		top, env, provider, redis string
		refused                   string // the field at fault, "" for none
	}{
		{env: "OTHER"},
		{env: "URL", refused: "handlers.A.env[0]"},
		{env: "OTHER, KEY", refused: "handlers.A.env[1]"},
		{env: "SECRET", refused: "handlers.A.env[0]"},
		{top: "SECRET", refused: "env[0]"},
		{env: "REDIS_URL", refused: "handlers.A.env[0]"},
		{env: "REDIS_URL", redis: "redis://other/0"},
		{env: "REDIS_URL", provider: "OPEN"},
		{env: "MINE", provider: "MINE", refused: "handlers.A.env[0]"},
		{env: "OPEN", provider: "OPEN"},
	} {
		inDir(t, "troupe.yml", "env: ["+tt.top+"]\nhandlers:\n"+hook+"  A:\n    exec: [sh]\n    env: ["+tt.env+"]\n")
		_, err := Load(Flags{Redis: tt.redis}, func(name string) string {
			if name == "REDIS_PROVIDER" {
				return tt.provider
			}
			return vars[name]
		})
		if tt.refused == "" {
			if err != nil {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.refused+" is ") || strings.Contains(err.Error(), "\n") ||
			!strings.Contains(err.Error(), "expected a variable that is no secret of the daemon") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
