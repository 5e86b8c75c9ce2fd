package redisconn

import (
	"bufio"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
)

// newServer is a Redis of a few words: it refuses HELLO and answers all else by
// reply, which returns RESP text.
func newServer(t *testing.T, reply func(args []string) string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c, reply)
		}
	}()
	return l.Addr().String()
}

func serve(c net.Conn, reply func([]string) string) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	for {
		args, err := readCommand(in)
		if err != nil {
			return
		}
		out := "-ERR unknown command\r\n"
		if strings.ToLower(args[0]) != "hello" {
			out = reply(args)
		}
		if _, err := io.WriteString(c, out); err != nil {
			return
		}
	}
}

func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readLength(in)
	args := make([]string, 0, max(n, 0))
	for range n {
		size, err := readLength(in)
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		args = append(args, string(b[:size]))
	}
	return args, err
}

func readLength(in *bufio.Reader) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }

func array(items ...string) string {
	return "*" + strconv.Itoa(len(items)) + "\r\n" + strings.Join(items, "")
}
