package sched

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var offset = regexp.MustCompile(`^([+-])(0\d|1[01]):?(00|15|30|45)$`)

// Zone returns the zone of a name of the IANA database ("Europe/Berlin") or of an offset ("+02:00").
func Zone(name string) (*time.Location, error) {
	if part := offset.FindStringSubmatch(name); part != nil {
		hours, _ := strconv.Atoi(part[2])
		minutes, _ := strconv.Atoi(part[3])
		seconds := hours*3600 + minutes*60
		if part[1] == "-" {
			seconds = -seconds
		}
		return time.FixedZone(name, seconds), nil
	}
	if loc, err := time.LoadLocation(name); err == nil && name != "" && loc != time.Local && beginsZone.MatchString(name) {
		return loc, nil
	}
	return nil, fmt.Errorf("zone %q: expected a name of the IANA database such as Europe/Berlin (Rails has names of its own), or an offset from -11:45 to +11:45", name)
}

// Local returns the zone of this process by its name: that of the variable TZ, else the system's.
// It is [time.Local] if that has no name.
func Local() *time.Location {
	name, ok := os.LookupEnv("TZ")
	if !ok {
		name, _ = filepath.EvalSymlinks("/etc/localtime")
	} else if name == "" {
		return time.UTC
	}
	if _, in, found := strings.Cut(name, "zoneinfo/"); found {
		name = in
	}
	if loc, err := Zone(strings.TrimPrefix(name, ":")); err == nil {
		return loc
	}
	return time.Local
}
