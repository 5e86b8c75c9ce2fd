package memredis

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // as Redis has it
	"encoding/hex"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"
	luajson "github.com/alicebob/miniredis/v2/gopher-json"
	"github.com/alicebob/miniredis/v2/server"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/troupehq/troupe/internal/script"
)

// scripts runs the scripts of this module as miniredis does, but all of them in one
// Lua state, as Redis does. miniredis makes a state for each call, which costs more than
// all else that a daemon asks of it. What other scripts need is not here: they are left
// to miniredis.
type scripts struct {
	redis  *miniredis.Miniredis
	server *server.Server

	// Guarded by the lock of redis:
	loaded map[string]*lua.FunctionProto // by SHA-1; nil: miniredis is to run it
	lua    *lua.LState                   // nil before the first call
	peer   *server.Peer                  // that of a running script for miniredis; it writes to reply
	reply  bytes.Buffer
	in     *bufio.Reader // reads it
}

func newScripts(m *miniredis.Miniredis) *scripts {
	s := &scripts{redis: m, server: m.Server(), loaded: map[string]*lua.FunctionProto{}}
	s.peer = server.NewPeer(bufio.NewWriter(&s.reply))
	s.in = bufio.NewReader(&s.reply)
	s.server.SetPreHook(func(p *server.Peer, cmd string, _ ...string) bool {
		if cmd == "PING" {
			s.peer.Ctx = p.Ctx
		}
		return false
	})
	s.server.Dispatch(server.NewPeer(bufio.NewWriter(io.Discard)), []string{"EVAL", "redis.call('PING')", "0"})
	s.server.SetPreHook(nil)
	return s
}

// run executes EVALSHA for a connection, unless miniredis is to do it.
func (s *scripts) run(p *server.Peer, args []string) bool {
	if len(args) < 2 {
		return false
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 0 || n > len(args)-2 {
		return false
	}
	proto := s.find(args[0])
	if proto == nil {
		return false
	}
	s.redis.Lock()
	defer s.redis.Unlock()
	if s.lua == nil {
		s.lua = s.newState()
	}
	l := s.lua
	l.SetTop(0)
	globals := l.G.Global
	globals.RawSetString("KEYS", list(l, args[2:2+n]))
	globals.RawSetString("ARGV", list(l, args[2+n:]))
	l.Push(l.NewFunctionFromProto(proto))
	if err := l.PCall(0, lua.MultRet, nil); err != nil {
		p.WriteError("ERR Error compiling script (new function): " + err.Error()) // in miniredis's words
		return true
	}
	write(p, l.Get(1))
	return true
}

// find returns the script, if the server knows it and it is one of this module.
func (s *scripts) find(sha string) *lua.FunctionProto {
	s.redis.Lock()
	proto, known := s.loaded[sha]
	s.redis.Unlock()
	if known {
		return proto
	}
	var reply bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&reply))
	s.server.Dispatch(peer, []string{"SCRIPT", "EXISTS", sha})
	peer.Flush()
	if !strings.HasSuffix(reply.String(), ":1\r\n") {
		return nil
	}
	if src, ok := script.Source(sha); ok {
		proto = compile(src)
	}
	s.redis.Lock()
	defer s.redis.Unlock()
	s.loaded[sha] = proto
	return proto
}

// forget is for SCRIPT: it may be FLUSH.
func (s *scripts) forget() {
	s.redis.Lock()
	defer s.redis.Unlock()
	clear(s.loaded)
}

// compile returns nil for a script that sets a global variable.
func compile(src string) *lua.FunctionProto {
	chunk, err := parse.Parse(strings.NewReader(src), "<string>")
	if err != nil {
		return nil
	}
	proto, err := lua.Compile(chunk, "")
	if err != nil || setsGlobals(proto) {
		return nil
	}
	return proto
}

func setsGlobals(p *lua.FunctionProto) bool {
	return slices.ContainsFunc(p.Code, func(code uint32) bool { return int(code>>26) == lua.OP_SETGLOBAL }) ||
		slices.ContainsFunc(p.FunctionPrototypes, setsGlobals)
}

// newState makes the state, with what scripts of this module use.
func (s *scripts) newState() *lua.LState {
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString, lua.MathLibName: lua.OpenMath,
	} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	luajson.Loader(l)
	l.SetGlobal("cjson", l.Get(-1))
	l.SetGlobal("redis", l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"call":        func(l *lua.LState) int { return s.call(l, true) },
		"pcall":       func(l *lua.LState) int { return s.call(l, false) },
		"error_reply": errorReply,
		"sha1hex": func(l *lua.LState) int {
			sum := sha1.Sum([]byte(l.CheckString(1))) //nolint:gosec // as Redis has it
			l.Push(lua.LString(hex.EncodeToString(sum[:])))
			return 1
		},
	}))
	strict := l.NewTable()
	strict.RawSetString("__index", l.NewFunction(func(l *lua.LState) int {
		l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.Get(2))
		return 0
	}))
	l.G.Global.Metatable = strict
	return l
}

// call is redis.call, and redis.pcall unless it is to fail.
func (s *scripts) call(l *lua.LState, fail bool) int {
	words := make([]string, l.GetTop())
	for i := range words {
		switch v := l.Get(i + 1).(type) {
		case lua.LNumber, lua.LString:
			words[i] = v.String()
		default:
			l.RaiseError("Lua redis lib command arguments must be strings or integers")
		}
	}
	if len(words) == 0 {
		l.RaiseError("Please specify at least one argument for this redis lib call")
	}
	s.reply.Reset()
	s.in.Reset(&s.reply)
	s.server.Dispatch(s.peer, words)
	s.peer.Flush()
	reply, err := server.ParseReply(s.in)
	switch {
	case err == nil:
		l.Push(value(l, reply))
	case fail:
		l.Error(lua.LString(err.Error()), 1)
	default:
		l.Push(table(l, "err", err.Error()))
	}
	return 1
}

func errorReply(l *lua.LState) int {
	text := strings.TrimPrefix(l.CheckString(1), "-")
	if !strings.Contains(text, " ") {
		text = "ERR " + text
	}
	l.Push(table(l, "err", text))
	return 1
}

// table has one field.
func table(l *lua.LState, name, text string) *lua.LTable {
	t := l.NewTable()
	t.RawSetString(name, lua.LString(text))
	return t
}

func list(l *lua.LState, texts []string) *lua.LTable {
	t := l.CreateTable(len(texts), 0)
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

// value is a reply as a script sees it.
func value(l *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case nil:
		return lua.LFalse
	case int:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case server.Simple:
		return table(l, "ok", string(r))
	case []any:
		t := l.CreateTable(len(r), 0)
		for _, v := range r {
			t.Append(value(l, v))
		}
		return t
	default:
		panic(reply)
	}
}

// write sends what a script returns.
func write(p *server.Peer, v lua.LValue) {
	switch v := v.(type) {
	case lua.LBool:
		if v {
			p.WriteInt(1)
		} else {
			p.WriteNull()
		}
	case lua.LNumber:
		p.WriteInt(int(v))
	case lua.LString:
		p.WriteBulk(string(v))
	case *lua.LTable:
		if text := v.RawGetString("err"); text != lua.LNil {
			p.WriteError(text.String())
		} else if text := v.RawGetString("ok"); text != lua.LNil {
			p.WriteInline(text.String())
		} else {
			n := 0
			for v.RawGetInt(n+1) != lua.LNil {
				n++
			}
			p.WriteLen(n)
			for i := range n {
				write(p, v.RawGetInt(i+1))
			}
		}
	default:
		p.WriteNull()
	}
}
