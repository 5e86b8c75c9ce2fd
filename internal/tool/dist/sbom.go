package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

type object = map[string]any

// billOfMaterials is what Go has noted in a program of what it is made of, as CycloneDX 1.6 has it.
func billOfMaterials(program, version string, at time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	self := component("application", info.Main.Path, "v"+version)
	self["name"] = "troupe"
	self["hashes"] = []object{{"alg": "SHA-256", "content": fmt.Sprintf("%x", sha256.Sum256(content))}}
	self["licenses"] = []object{{"license": object{"id": "Apache-2.0"}}}
	var settings []object
	for _, s := range info.Settings {
		settings = append(settings, object{"name": "go:build:" + s.Key, "value": s.Value})
	}
	self["properties"] = settings
	parts := []object{component("library", "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component("library", m.Path, m.Version)
		c["properties"] = []object{{"name": "go:sum", "value": m.Sum}}
		parts = append(parts, c)
	}
	var needs []any
	for _, c := range parts {
		needs = append(needs, c["bom-ref"])
	}
	text, err := json.MarshalIndent(object{ // which sorts the keys
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":     object{"timestamp": at.UTC().Format(time.RFC3339), "component": self},
		"components":   parts,
		"dependencies": []object{{"ref": self["bom-ref"], "dependsOn": needs}},
	}, "", "  ")
	return append(text, '\n'), err
}

func component(kind, path, version string) object {
	purl := "pkg:golang/" + path + "@" + version
	return object{"bom-ref": purl, "type": kind, "name": path, "version": version, "purl": purl}
}
