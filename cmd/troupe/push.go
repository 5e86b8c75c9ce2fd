package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/troupehq/troupe/client"
	"github.com/troupehq/troupe/internal/console/cli"
	"github.com/troupehq/troupe/internal/job"
	"github.com/troupehq/troupe/internal/limits"
	"github.com/troupehq/troupe/internal/redisconn"
)

// push is one call of the command.
type push struct {
	class string
	args  json.RawMessage // the array
	given bool            // --args

	queue, retry, redis string
	file, url           string
	in                  time.Duration
	at                  time.Time
	count               int
	encrypt             bool
}

func pushCommand() *cobra.Command {
	p := push{count: 1}
	var list string
	cmd := &cobra.Command{
		Use:   "push CLASS [ARG…]",
		Short: "Push jobs and print their jids",
		Long: `Push pushes a job, as Sidekiq's client does, and prints its jid. Each ARG is JSON
if it parses, else a string. Integers are pushed digit by digit, other numbers as
Ruby would write them (1e3 is 1000.0). Write -- before the first ARG that begins
with a dash.`,
		Example: `  troupe push HardWorker bob 5
  troupe push HardWorker '"5"' '{"a":[1,2]}' --queue critical --in 30s
  troupe push HardWorker --args '[1,"two"]' --count 1000
  troupe push HardWorker -- -5`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return errors.New("CLASS is missing, expected the class of the job")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			p.class = args[0]
			p.given = cmd.Flags().Changed("args")
			if p.args, err = arguments(args[1:], list, p.given); err != nil {
				return err
			}
			if p.url, err = cli.URL(files{}, p.redis, p.file); err != nil {
				return err
			}
			return p.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if errors.As(err, new(*pflag.NotExistError)) {
			return fmt.Errorf("%w (write -- before arguments that begin with a dash)", cli.FlagFault(cmd, err))
		}
		return cli.FlagFault(cmd, err)
	})
	f := cmd.Flags()
	f.SortFlags = false
	f.Var(wordFlag{&p.queue, "NAME"}, "queue", "queue to push to (default)")
	f.Var(cli.Span(&p.in), "in", cli.InUsage)
	f.Var(cli.Moment(&p.at), "at", cli.AtUsage)
	f.Var(wordFlag{&p.retry, "RETRY"}, "retry", fmt.Sprintf("true, false or how often to retry (true: %d times)", limits.Retries))
	f.BoolVar(&p.encrypt, "encrypt", false, "seal the last argument with the newest key of the configuration file")
	f.Var(cli.Number(&p.count, 1, math.MaxInt32), "count", "push so many of it")
	f.StringVar(&list, "args", "", "all arguments as one `JSON` array, instead of ARG")
	f.VarP(wordFlag{&p.file, "FILE"}, "config", "C", "configuration file of the daemons: it names the Redis, and the classes whose jobs are unique")
	f.Var(wordFlag{&p.redis, "URL"}, "redis", "Redis to use (REDIS_PROVIDER, REDIS_URL, redis://localhost:6379/0)")
	cmd.MarkFlagsMutuallyExclusive("in", "at")
	return cmd
}

// arguments returns the job's arguments as the text of a JSON array.
func arguments(args []string, list string, given bool) (json.RawMessage, error) {
	if given {
		if len(args) > 0 {
			return nil, fmt.Errorf("ARG is %q, expected none beside --args", args[0])
		}
		if text := strings.TrimSpace(list); !json.Valid([]byte(text)) || text[0] != '[' {
			return nil, fmt.Errorf("--args is %q, expected a JSON array", list)
		}
		if !utf8.ValidString(list) {
			return nil, fmt.Errorf("--args is %q, expected UTF-8", list)
		}
		return json.RawMessage(list), nil
	}
	values, err := cli.Arguments(args)
	if err != nil {
		return nil, err
	}
	raw, err := job.EncodeJSON(values)
	if err != nil {
		return nil, fmt.Errorf("encode arguments: %w", err)
	}
	return raw, nil
}

func (p *push) options() ([]client.Option, error) {
	var opts []client.Option
	if p.queue != "" {
		opts = append(opts, client.Queue(p.queue))
	}
	if p.in > 0 {
		opts = append(opts, client.In(p.in))
	}
	if !p.at.IsZero() {
		opts = append(opts, client.At(p.at))
	}
	switch p.retry {
	case "", "true":
	case "false":
		opts = append(opts, client.Never())
	default:
		n, err := strconv.Atoi(p.retry)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("--retry is %q, expected true, false or a number from 0", p.retry)
		}
		opts = append(opts, client.Retry(n))
	}
	if p.encrypt {
		opts = append(opts, client.Encrypt(true))
	}
	return opts, nil
}

// client is the one that pushes through rdb, and what the file says of the class.
func (p *push) client(rdb redis.UniversalClient) (*client.Client, []client.Option, error) {
	if p.file == "" {
		if p.encrypt {
			return nil, nil, errors.New("--encrypt is given, expected -C FILE beside it: the file says where the keys are")
		}
		return client.New(rdb), nil, nil
	}
	said, err := files{}.Read(p.file)
	var opts []client.Option
	if u, ok := said.Unique[p.class]; ok {
		opts = append(opts, client.Unique(u))
	}
	if !p.encrypt {
		return client.New(rdb), opts, err
	}
	return client.New(rdb, client.WithEncryption(said.Keys)), opts, err
}

func (p *push) run(ctx context.Context, out io.Writer) error {
	opts, err := p.options()
	if err != nil {
		return err
	}
	rdb, err := redisconn.FromURL(p.url, redisconn.Need{})
	if err != nil {
		return err
	}
	defer func() { _ = rdb.Close() }()
	c, own, err := p.client(rdb)
	if err != nil {
		return err
	}
	opts = append(opts, own...)
	if err := p.push(ctx, c, opts, out); err != nil {
		return fmt.Errorf("%w (redis %s)", err, redisconn.Mask(p.url))
	}
	return nil
}

// portion bounds what is held in memory; jids are printed after each.
const portion = 10_000

func (p *push) push(ctx context.Context, c *client.Client, opts []client.Option, out io.Writer) error {
	if p.count == 1 {
		jid, err := c.PushJSON(ctx, p.class, p.args, opts...)
		if err != nil {
			return err
		}
		return printLines(out, []string{jid})
	}
	for left := p.count; left > 0; left -= portion {
		// What was pushed before an error is printed, too.
		jids, err := c.PushBulkClass(ctx, p.class, p.copies(min(left, portion)), opts...)
		jids = slices.DeleteFunc(jids, func(jid string) bool { return jid == "" }) // not pushed: err tells why
		if err := errors.Join(err, printLines(out, jids)); err != nil {
			return err
		}
	}
	return nil
}

// copies yields the same arguments n times.
func (p *push) copies(n int) iter.Seq[[]any] {
	var values []json.RawMessage
	_ = json.Unmarshal(p.args, &values) // was checked
	args := make([]any, len(values))
	for i, v := range values {
		args[i] = v
	}
	return func(yield func([]any) bool) {
		for range n {
			if !yield(args) {
				return
			}
		}
	}
}

func printLines(out io.Writer, lines []string) error {
	w := bufio.NewWriter(out)
	for _, l := range lines {
		_, _ = w.WriteString(l + "\n") // Flush tells
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print jids: %w", err)
	}
	return nil
}
