package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// defaultScheduleFile is where sidekiq-cron finds its periodic jobs, beside config/sidekiq.yml.
const defaultScheduleFile = "config/schedule.yml"

// parseSchedule reads data, the text of a file of sidekiq-cron that is called name in messages, into
// f: a map of periodic jobs by name, or a list of them.
func parseSchedule(name string, data []byte, f *File) error {
	p := &parse{name: name, out: f}
	if root := p.tree(data, "schedule.yml"); root != nil {
		p.part("periodic", func(part *periodicPart) { part.entries = p.entries(root, "", false) })
	}
	p.periodicJobs("")
	return p.faults.err()
}

// schedule reads the file of sidekiq-cron that the configuration file names, or the usual one beside
// an application's sidekiq.yml.
func (l *loader) schedule() {
	file := &l.s.File
	usual := !file.scheduleNamed
	if file.scheduleFile == "" || usual && filepath.Base(filepath.Dir(l.s.Path)) != "config" {
		return
	}
	if usual {
		file.scheduleFile = filepath.Join(filepath.Dir(l.s.Path), filepath.Base(defaultScheduleFile)) // whatever the working directory is
	}
	data, err := os.ReadFile(file.scheduleFile)
	if errors.Is(err, fs.ErrNotExist) && usual {
		return
	}
	if err != nil {
		l.faults = append(l.faults, Fault{
			File: l.s.Path, Field: "cron_schedule_file", Value: strconv.Quote(file.scheduleFile),
			Want: "a file that can be read (" + err.Error() + ")" + elsewhere,
		})
		return
	}
	if f, ok := errors.AsType[Faults](parseSchedule(file.scheduleFile, data, file)); ok {
		l.faults = append(l.faults, f...)
	}
}
