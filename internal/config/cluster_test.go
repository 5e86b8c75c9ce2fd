package config

import (
	"strings"
	"testing"
)

func TestAClusterIsGivenByItsNodes(t *testing.T) {
	f, err := Parse("troupe.yml", []byte("redis: {cluster: [\"10.0.0.1:7000\", \"10.0.0.2:7000\"]}\n"), "")
	if err != nil || f.Redis != "redis+cluster://10.0.0.1:7000?addr=10.0.0.2%3A7000" {
		t.Errorf("%q, %v", f.Redis, err)
	}
	for text, want := range map[string]string{
		"redis: {cluster: []}":                        "redis.cluster is an empty list, expected addresses of nodes",
		"redis: {cluster: [somewhere]}":               "host:port",
		"redis: {cluster: [\"u:hunter2@host:7000\"]}": "credentials and TLS need a URL",
		"redis: {clutser: [\"a:1\"]}":                 "expected cluster",
		"redis: \"redis+cluster://h:1/7\"":            "database 0 only",
	} {
		if _, err := Parse("troupe.yml", []byte(text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
