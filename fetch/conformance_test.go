package fetch_test

import (
	"testing"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/fetch/fetchtest"
)

var (
	reliable = fetchtest.Harness{Name: "reliable", New: fetch.NewReliable}
	sharing  = fetchtest.Harness{Name: "sharing", New: func(env fetch.Env) (fetch.Fetcher, error) {
		env.Share = 3
		return fetch.NewReliable(env)
	}}
	basic = fetchtest.Harness{Name: "basic", New: fetch.NewBasic}
)

func TestMain(m *testing.M) { fetchtest.Main(m, reliable, sharing, clustered) }

func TestReliableDelivery(t *testing.T) { fetchtest.Delivery(t, reliable) }
func TestReliableCrash(t *testing.T)    { fetchtest.Crash(t, reliable) }
func TestSharingDelivery(t *testing.T)  { fetchtest.Delivery(t, sharing) }
func TestSharingCrash(t *testing.T)     { fetchtest.Crash(t, sharing) }
func TestBasicDelivery(t *testing.T)    { fetchtest.Delivery(t, basic) }
