package browser

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe/internal/test/redistest"
)

// chrome is the one browser of this test binary.
var chrome struct {
	sync.Mutex
	ctx  context.Context //nolint:containedctx // of chromedp, which keeps the browser in it
	stop []context.CancelFunc
	err  error
}

// browser starts Chromium, once. It resolves no names: only 127.0.0.1 is there.
func browser(tb testing.TB) context.Context {
	tb.Helper()
	chrome.Lock()
	defer chrome.Unlock()
	if chrome.ctx != nil || chrome.err != nil {
		if chrome.err != nil {
			redistest.Missing(tb, chrome.err)
		}
		return chrome.ctx
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, chrome.err = exec.LookPath(name); chrome.err == nil {
			break
		}
	}
	if chrome.err != nil {
		chrome.err = errors.New("neither chromium nor google-chrome is here; make browser installs the first")
		redistest.Missing(tb, chrome.err)
	}
	alloc, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("lang", "en-US"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))...)
	ctx, end := chromedp.NewContext(alloc)
	chrome.stop = append(chrome.stop, end, stop)
	if chrome.err = chromedp.Do(ctx); chrome.err != nil {
		tb.Fatalf("start %s: %v", path, chrome.err)
	}
	chrome.ctx = ctx //nolint:fatcontext // it is set once
	return ctx
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// TestMain runs the tests or, in a process that a test has started from this binary, a daemon.
func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // of go-redis: connections end with the servers
	if url := os.Getenv(daemonEnv); url != "" {
		os.Exit(daemonMain(url))
	}
	code := m.Run()
	for _, stop := range chrome.stop {
		stop()
	}
	os.Exit(code)
}
