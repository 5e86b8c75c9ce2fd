package actors

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/actors/internal/work"
	"github.com/troupehq/troupe/internal/test/harness"
	"github.com/troupehq/troupe/internal/tree"
)

// named is a job that has only a jid.
type named string

func (n named) Ref() tree.JobRef { return tree.JobRef{JID: string(n)} }
func (named) Interrupt(error)    {}

// A report names the first hundred of the jobs that finished, and counts the others.
func TestTheReportOfAStopIsBounded(t *testing.T) {
	const jobs = 5000
	var d drain
	d.on.Store(true)
	for i := range jobs {
		w := &work.Item{}
		w.ByItself.Store(true)
		w.Job = named(fmt.Sprintf("%024d", i))
		d.settled([]*work.Item{w})
	}
	var line bytes.Buffer
	log := zerolog.New(&line)
	log.Info().EmbedObject(d.report).Msg("stopped")
	var told struct {
		Finished int
		JIDs     []string `json:"finished_jids"`
		More     int      `json:"finished_more"`
	}
	harness.OK(t, json.Unmarshal(line.Bytes(), &told))
	if told.Finished != jobs || len(told.JIDs) != mostFinished || told.More != jobs-mostFinished || told.JIDs[0] != fmt.Sprintf("%024d", 0) {
		t.Errorf("%d finished, %d named, %d more", told.Finished, len(told.JIDs), told.More)
	}
	if text := d.report.String(); !strings.Contains(text, "5000 finished") || !strings.Contains(text, "4900 more") || strings.Count(text, "\n") != mostFinished+2 {
		t.Error(text)
	}
}
