package periodic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/troupehq/troupe"
	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/sched"
)

// missedMax bounds Periodic.MissedMax.
const missedMax = 100_000

// wrong is a fault of a field of a Periodic.
func wrong(field string, value any, want string) error {
	return fmt.Errorf("%s: got %v, want %s", field, value, want)
}

// draft is a Periodic that is ready to be written.
type draft struct {
	spec troupe.Periodic
	line *sched.Schedule
	hash map[string]string // without its status and what depends on the version of sidekiq-cron
}

// Check says what is wrong with p, if anything; a line without a zone is in zone, nil the local one.
func Check(p troupe.Periodic, zone *time.Location) error {
	_, err := newDraft(p, "", zone)
	return err
}

// CheckCluster says what is wrong with p if Redis is a Cluster.
func CheckCluster(p troupe.Periodic, cluster bool) error {
	if p.Overlap == "" || !cluster {
		return nil
	}
	return wrong("Overlap", strconv.Quote(string(p.Overlap)), "nothing on a Redis Cluster: the tick has its mark in the slot of the entry, and the job and its lock are in that of the queue")
}

// Target is the class of the jobs of p, and their queue; both are "" where Check has a fault of p.
func Target(p troupe.Periodic) (class, queue string) {
	class, _, message, err := messageOf(p)
	if err != nil {
		return "", ""
	}
	made, err := troupe.ParsePayload(message)
	if err != nil {
		return "", ""
	}
	return class, made.Queue()
}

func newDraft(p troupe.Periodic, tag string, zone *time.Location) (*draft, error) {
	switch {
	case p.Name == "" || !utf8.ValidString(p.Name):
		return nil, wrong("Name", strconv.Quote(p.Name), "a name in UTF-8")
	case !utf8.ValidString(p.Namespace) || p.Namespace == "-":
		return nil, wrong("Namespace", strconv.Quote(p.Namespace), "a name in UTF-8 other than -")
	case p.MissedMax < 0 || p.MissedMax > missedMax:
		return nil, wrong("MissedMax", p.MissedMax, fmt.Sprintf("a number from 0 to %d", missedMax))
	case p.Overlap != "" && p.Overlap != troupe.OverlapSkip:
		return nil, wrong("Overlap", strconv.Quote(string(p.Overlap)), "skip or nothing")
	}
	switch p.Missed {
	case "", troupe.MissedSkip, troupe.MissedLast, troupe.MissedAll:
	default:
		return nil, wrong("Missed", strconv.Quote(string(p.Missed)), "skip, last or all")
	}
	if zone == nil {
		zone = sched.Local()
	}
	line, err := sched.Parse(p.Cron, zone)
	if err != nil {
		return nil, fmt.Errorf("Cron: %w", err) //nolint:staticcheck // the name of a field
	}
	if line.Next(time.Now()).IsZero() {
		return nil, wrong("Cron", strconv.Quote(p.Cron), "a line with a tick in the next sixty years")
	}
	class, args, message, err := messageOf(p)
	if err != nil {
		return nil, err
	}
	if sealing := seals(message); sealing && (p.DateArg || p.ActiveJob) {
		return nil, wrong("Args", "a type with Encrypt", "one without beside DateArg or ActiveJob")
	}
	about, err := job.EncodeJSON(own{Tag: tag, Missed: p.Missed, Max: p.MissedMax, Once: p.Once, Overlap: p.Overlap, Shared: p.SidekiqScheduler})
	if err != nil {
		return nil, fmt.Errorf("tag: %w", err)
	}
	return &draft{spec: p, line: line, hash: map[string]string{
		"name": p.Name, "klass": class, "cron": line.String(), "description": p.Description,
		"args": string(args), "message": string(message), "symbolize_args": "false",
		"date_as_argument": strconv.FormatBool(p.DateArg), "active_job": strconv.FormatBool(p.ActiveJob),
		"queue_name_prefix": p.QueuePrefix, "queue_name_delimiter": p.QueueDelimiter, "troupe": string(about),
	}}, nil
}

// Seals tells whether the last argument of the jobs of p is sealed.
func Seals(p troupe.Periodic) bool {
	_, _, message, err := messageOf(p)
	return err == nil && seals(message)
}

func seals(message []byte) bool {
	p, err := troupe.ParsePayload(message)
	return err == nil && job.IsMarked(p)
}

// seal seals the last argument of a draft that asks for it: each tick pushes the same text.
func (d *draft) seal(crypt *job.Crypt) error {
	p, err := troupe.ParsePayload([]byte(d.hash["message"]))
	if err == nil {
		err = crypt.Seal(p)
	}
	if err != nil {
		return err
	}
	d.hash["args"], d.hash["message"] = string(p.Args()), string(p.Bytes())
	return nil
}

// messageOf is what each job of p is made from, as a client would push it but for its jid and times.
func messageOf(p troupe.Periodic) (class string, args, message []byte, err error) {
	var opts []client.Option
	if p.Queue != "" {
		opts = append(opts, client.Queue(p.Queue))
	}
	switch n, set := p.Retries.Limit(); {
	case p.Retries == troupe.Never():
		opts = append(opts, client.Never())
	case set:
		opts = append(opts, client.Retry(n))
	}
	nowhere := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"}) // nothing is sent
	defer func() { _ = nowhere.Close() }()
	var pushed *troupe.Payload
	keep := client.New(nowhere, client.WithMiddleware(func(client.PushFunc) client.PushFunc {
		return func(_ context.Context, p *troupe.Payload) error {
			pushed = p
			return client.ErrStopped
		}
	}))
	if of, ok := p.Args.(troupe.Args); !ok && p.Class == "" || ok && of.Class() == "" {
		return "", nil, nil, wrong("Class", `""`, "the name of a class")
	}
	ctx := context.Background()
	switch of := p.Args.(type) {
	case troupe.Args:
		if p.Class != "" && p.Class != of.Class() {
			return "", nil, nil, wrong("Class", strconv.Quote(p.Class), fmt.Sprintf("nothing or %q beside Args of type %T", of.Class(), of))
		}
		_, err = keep.Push(ctx, of, opts...)
	case nil:
		_, err = keep.PushClass(ctx, p.Class, []any{}, opts...)
	case []any:
		_, err = keep.PushClass(ctx, p.Class, of, opts...)
	default:
		return "", nil, nil, wrong("Args", fmt.Sprintf("a value of type %s", reflect.TypeOf(of)), "a type with a method Class, or a []any beside Class")
	}
	if !errors.Is(err, client.ErrStopped) {
		return "", nil, nil, fmt.Errorf("make its job: %w", err)
	}
	for _, key := range []string{"jid", "created_at", "enqueued_at", "at"} {
		pushed.Delete(key)
	}
	return pushed.Class(), bytes.Clone(pushed.Args()), pushed.Bytes(), nil
}

// fields are the hash, as the version of sidekiq-cron writes it whose namespace this is.
func (d *draft) fields(namespace string) map[string]string {
	if namespace == "" {
		return d.hash
	}
	out := map[string]string{"namespace": namespace, "source": "dynamic"}
	maps.Copy(out, d.hash)
	for _, name := range []string{"symbolize_args", "date_as_argument", "active_job"} {
		out[name] = map[string]string{"true": "1", "false": "0"}[out[name]]
	}
	return out
}
