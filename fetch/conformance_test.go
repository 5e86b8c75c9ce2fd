package fetch_test

import (
	"testing"

	"github.com/troupehq/troupe/fetch"
	"github.com/troupehq/troupe/fetch/fetchtest"
)

var (
	reliable = fetchtest.Harness{Name: "reliable", New: fetch.NewReliable}
	basic    = fetchtest.Harness{Name: "basic", New: fetch.NewBasic}
)

func TestMain(m *testing.M) { fetchtest.Main(m, reliable, clustered) }

func TestReliableDelivery(t *testing.T) { fetchtest.Delivery(t, reliable) }
func TestReliableCrash(t *testing.T)    { fetchtest.Crash(t, reliable) }
func TestBasicDelivery(t *testing.T)    { fetchtest.Delivery(t, basic) }
