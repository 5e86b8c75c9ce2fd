package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rs/zerolog"

	"github.com/troupehq/troupe/internal/osproc"
	"github.com/troupehq/troupe/internal/test/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(newDriverLog(zerolog.Nop()))
	testscript.Main(m, map[string]func(){"troupe": main, "get": get, "program": program, "subreaper": subreaper})
}

// Each script of testdata/script has a clean database of a real Redis, in
// $REDIS_URL, and beside testscript's commands
//
//	code N PROGRAM ARG…           runs a program that exits with N
//	redis COMMAND ARG…            a Redis command; its reply is the standard output
//	await REGEXP COMMAND ARG…     repeats one until its reply matches
//	until REGEXP PROGRAM ARG…     repeats a program until its output matches
//	exec get URL [FORM]           prints the status and the body of an HTTP reply; with a form it posts
//	port VARIABLE                 sets the variable to the number of a free port
//	like stdout|stderr FILE       compares the last output with a file, line by line, see pattern
//	signal NAME                   sends a signal to the daemons in the background
//	oldredis VARIABLE             starts what looks like Redis 5 and sets the variable to its URL
//	hooks VARIABLE                starts an HTTP server for jobs and sets the variable to its URL
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			rdb, url := redistest.New(t)
			env.Values["redis"] = rdb
			env.Setenv("REDIS_URL", url)
			env.Setenv("SOON", strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)) // a beat that does not grow old
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": code, "redis": redisCommand, "await": await, "until": until, "like": like, "signal": signal, "oldredis": oldRedis,
			"hooks": hooks, "port": port,
		},
	})
}

func code(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

func do(ts *testscript.TestScript, args []string) string {
	rdb := ts.Value("redis").(*redis.Client)
	cmd := make([]any, len(args))
	for i, a := range args {
		cmd[i] = a
	}
	v, err := rdb.Do(context.Background(), cmd...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		ts.Fatalf("redis %v: %v", args, err)
	}
	if list, ok := v.([]any); ok {
		var b strings.Builder
		for _, x := range list {
			fmt.Fprintln(&b, x)
		}
		return b.String()
	}
	return fmt.Sprintln(v)
}

func redisCommand(ts *testscript.TestScript, _ bool, args []string) {
	reply := do(ts, args)
	_, err := ts.Stdout().Write([]byte(reply))
	ts.Check(err)
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	deadline := time.Now().Add(time.Minute)
	for {
		reply := do(ts, args[1:])
		if re.MatchString(reply) {
			_, err := ts.Stdout().Write([]byte(reply))
			ts.Check(err)
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v does not become %q, it is %q", args[1:], args[0], reply)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func until(ts *testscript.TestScript, _ bool, args []string) {
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		_ = ts.Exec(args[1], args[2:]...)
		switch out := ts.ReadFile("stdout") + ts.ReadFile("stderr"); {
		case re.MatchString(out):
			return
		case time.Now().After(deadline):
			ts.Fatalf("%v does not say %q, but %q", args[1:], args[0], out)
		}
	}
}

// get is a program of its own: "until" runs it, too.
func get() {
	var request *http.Request
	var err error
	if len(os.Args) == 2 {
		request, err = http.NewRequest(http.MethodGet, os.Args[1], nil)
	} else if request, err = http.NewRequest(http.MethodPost, os.Args[1], strings.NewReader(os.Args[2])); err == nil {
		request.Header = http.Header{"Accept": {"application/json"}, "Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {"same-origin"}}
	}
	var reply *http.Response
	if err == nil {
		reply, err = http.DefaultClient.Do(request)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer func() { _ = reply.Body.Close() }()
	fmt.Println(reply.StatusCode)
	_, _ = io.Copy(os.Stdout, reply.Body)
}

func port(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, number, _ := net.SplitHostPort(l.Addr().String())
	ts.Setenv(args[0], number)
	ts.Check(l.Close())
}

// places are what a line of a file for like may have for a text that is another one each time.
var places = strings.NewReplacer(
	"<AGO>", `\d+[smhd]`, "<SPAN>", `(?:\d+h)?(?:\d+m)?[\d.]+m?s`, "<TIME>", `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z`, "<ID>", `[^\s:]+:\d+:[0-9a-f]{12}`,
	"<JID>", `[0-9a-f]{24}`, "<N>", `\d+(?:\.\d+)?`, "<ANY>", `.*`, "…", `.*`,
)

// pattern matches a line with places.
func pattern(line string) *regexp.Regexp {
	return regexp.MustCompile("^" + places.Replace(regexp.QuoteMeta(line)) + "$")
}

func like(ts *testscript.TestScript, _ bool, args []string) {
	got := strings.Split(strings.TrimSuffix(ts.ReadFile(args[0]), "\n"), "\n")
	want := strings.Split(strings.TrimSuffix(ts.ReadFile(args[1]), "\n"), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !pattern(want[i]).MatchString(got[i]) {
			ts.Fatalf("%s is\n%s\nexpected %s, which differs in line %d:\n%s", args[0], strings.Join(got, "\n"), args[1], i+1, strings.Join(want[min(i, len(want)):], "\n"))
		}
	}
}

func signal(ts *testscript.TestScript, _ bool, args []string) {
	sig := map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "TSTP": osproc.Quiet, "TTIN": osproc.Dump, "HUP": osproc.Reload,
	}[args[0]]
	for _, cmd := range ts.BackgroundCmds() {
		if filepath.Base(cmd.Path) == "troupe" {
			ts.Check(cmd.Process.Signal(sig))
		}
	}
}

// oldRedis answers PING and INFO as Redis 5 does, and errors to all else.
func oldRedis(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], "redis://"+l.Addr().String()+"/0")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answer(c)
		}
	}()
}

func answer(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for {
		var n int
		if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
			return
		}
		var name string
		for i := range n {
			var size int
			if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
				return
			}
			b := make([]byte, size+2)
			for read := 0; read < len(b); {
				m, err := r.Read(b[read:])
				if err != nil {
					return
				}
				read += m
			}
			if i == 0 {
				name = strings.ToUpper(string(b[:size]))
			}
		}
		reply := "-ERR unknown command\r\n"
		switch name {
		case "PING":
			reply = "+PONG\r\n"
		case "INFO":
			const info = "# Server\r\nredis_version:5.0.14\r\n"
			reply = fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
		}
		if _, err := c.Write([]byte(reply)); err != nil {
			return
		}
	}
}
