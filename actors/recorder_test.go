package actors_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/actors"
	"github.com/troupehq/troupe/internal/flight"
	"github.com/troupehq/troupe/testkit"
)

// The panic of a job is four events for subscribers and the recorder, and one row for people.
func TestAPanicIsOneRow(t *testing.T) {
	rdb := testkit.Redis(t)
	var r troupe.Registry
	troupe.HandleClass(&r, "Panics", troupe.HandlerFunc(func(context.Context, *troupe.Payload) error { panic("boom") }))
	k := testkit.Start(t, actors.Config{Redis: rdb, Registry: &r})
	jid := k.PushClass("Panics", nil)
	var records []flight.Record
	k.Await("all is recorded", func() bool {
		records, _ = flight.Read(t.Context(), rdb, k.Daemon.Identity())
		return slices.ContainsFunc(records, func(r flight.Record) bool { return r.Kind == flight.Restarted })
	})
	if len(records) != 4 {
		t.Errorf("records %+v", records)
	}
	rows := flight.Fold(records)
	if len(rows) != 1 || rows[0].Kind != flight.JobCrashed || rows[0].JID != jid || rows[0].Class != "Panics" ||
		!strings.HasPrefix(rows[0].Text, "panic: boom; retried, next attempt at ") || !strings.HasSuffix(rows[0].Text, "; its actor: restart 1") {
		t.Errorf("rows %+v", rows)
	}
}
