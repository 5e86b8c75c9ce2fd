// Package config turns flags, a configuration file and the environment into an
// actors.Config. The file is Sidekiq's (config/sidekiq.yml) or troupe's own,
// which is the same with handlers: and a few keys more; Parse reads it and
// tells all of its faults at once, each with line, field, value and what was
// expected. Load puts the layers together: flags win over the file, the file
// over the environment, the environment over the defaults. Settings.Daemon
// then makes the configuration. RedisURL and ParseQueues read single flags by
// the same rules.
//
// The layers are merged by hand and the file is read from goccy's syntax tree:
// a general configuration library would merge maps of any, in which the line
// numbers, the order of keys and the difference between 5 and "5" are lost, to
// save the dozen assignments of Load.
package config
