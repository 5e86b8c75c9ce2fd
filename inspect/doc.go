// Package inspect is the data API: it shows what is in Redis (totals, queues,
// the three sorted sets, processes, running jobs) and does what operators do
// with it (retry, kill, delete, reschedule, quiet, stop). Its nouns are those
// of Sidekiq's own API, and so are its effects in Redis; both can be used side
// by side, on jobs of either side.
//
//	i := inspect.New(rdb)
//	for entry, err := range i.RetrySet.Each(ctx) {
//		if err != nil {
//			return err
//		}
//		if entry.Payload.Class() == "Billing::ChargeCard" {
//			outcome, err := entry.Retry(ctx)
//			fmt.Println(entry.JID, outcome, err)
//		}
//	}
//
// # Two operators and a poller
//
// What an operator sees may be gone a moment later. Every operation on an entry
// or on a queued job names it by its exact bytes and is one atomic step in
// Redis, which writes the destination before it removes the source. Of several
// operators, pollers of Ruby and of Go among them, one moves the entry; the
// others are told Gone, and nothing is lost or doubled. An operation whose
// reply is lost may be repeated: it does nothing twice, but says Gone then.
//
// # Sizes
//
// Sets and queues of any size are walked through in pages; nothing here holds
// more than a page of them.
//
// # Redis Cluster
//
// It works on a cluster, too, which Sidekiq does not. The keys of one step are in
// several slots there, so that a retry, a kill or an addition to a queue takes two
// steps: claim the entry, write the destination. If the process dies in between,
// a poller puts the entry back into its set after a minute; if it had arrived at
// its destination, it is in both.
package inspect
