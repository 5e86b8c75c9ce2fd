package actors

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// statusTime is how often systemd gets the status line; the watchdog may want to hear more often.
const statusTime = 5 * time.Second

// tellSystemd feeds systemd's watchdog as long as all daemons are Live, and keeps its status line,
// until ctx ends. It runs beside the goroutine that obeys signals: a lock that a wedged part
// holds costs the watchdog only.
func (g *Group) tellSystemd(ctx context.Context) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	every := statusTime
	period, err := daemon.SdWatchdogEnabled(false)
	watched := err == nil && period >= time.Second
	if watched {
		every = min(every, period/2)
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for last := ""; ; {
		var news []string
		status, live := g.status()
		if watched && live {
			news = append(news, daemon.SdNotifyWatchdog)
		}
		if status != last {
			news, last = append(news, "STATUS="+status), status
		}
		if len(news) > 0 {
			_, _ = daemon.SdNotify(false, strings.Join(news, "\n"))
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// status is the line of systemctl status, such as "running, 3 of 10 busy", and whether all daemons are Live.
func (g *Group) status() (line string, live bool) {
	live = true
	var parts []string
	for i, d := range g.daemons {
		h := d.Health()
		live = live && h.Live.OK()
		part := fmt.Sprintf("%s, %d of %d busy", h.Phase, h.Busy, h.Slots)
		for _, why := range append(h.Live, h.Ready...) {
			if why.Code != h.Phase {
				part += ", " + why.Text
				break
			}
		}
		if name := g.shards[i].Name; name != "" {
			part = name + ": " + part
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; "), live
}
