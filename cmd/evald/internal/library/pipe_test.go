package library

import (
	"bufio"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/evald/evald/engine/game/gametest"
)

// caller is the other end of Serve, one call at a time.
type caller struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *bufio.Reader
	done chan error
}

func startCaller(t *testing.T) *caller {
	fromCaller, in := io.Pipe()
	out, toCaller := io.Pipe()
	c := &caller{t, in, bufio.NewReader(out), make(chan error, 1)}
	go func() {
		c.done <- Serve(fromCaller, toCaller, "v1.2.3")
		fromCaller.Close()
		toCaller.Close()
	}()
	greeting := make([]byte, len(Greeting))
	gametest.Must(io.ReadFull(c.out, greeting))(t)
	if string(greeting) != Greeting {
		t.Fatalf("the greeting is %q", greeting)
	}
	return c
}

// the kinds of arguments: int is a number, string a text, []byte an array that is read, and these.
type (
	written int // an array of this size that is written
	late    int // one that a Work writes
)

func integers(ns ...int) (b []byte) {
	for _, n := range ns {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

func (c *caller) integer() int {
	c.t.Helper()
	var b [8]byte
	gametest.Must(io.ReadFull(c.out, b[:]))(c.t)
	return int(int64(binary.LittleEndian.Uint64(b[:])))
}

func (c *caller) bytes() []byte {
	b := make([]byte, c.integer())
	gametest.Must(io.ReadFull(c.out, b))(c.t)
	return b
}

// call makes a call, and returns its result, its error and what it has written.
func (c *caller) call(name string, arguments ...any) (result int, text string, arrays [][]byte) {
	c.t.Helper()
	m := append(integers(77, len(name)), name...)
	m = append(m, integers(len(arguments))...)
	for _, a := range arguments {
		switch a := a.(type) {
		case int:
			m = append(append(m, 'n'), integers(a)...)
		case string:
			m = append(append(append(m, 's'), integers(len(a))...), a...)
		case []byte:
			m = append(append(append(m, 'r'), integers(len(a))...), a...)
		case written:
			m = append(append(m, 'w'), integers(int(a))...)
		case late:
			m = append(append(m, 'l'), integers(int(a))...)
		}
	}
	gametest.Must(c.in.Write(m))(c.t)
	if id := c.integer(); id != 77 {
		c.t.Fatalf("an answer to call %d", id)
	}
	result, text = c.integer(), string(c.bytes())
	for range c.integer() {
		arrays = append(arrays, c.bytes())
	}
	return result, text, arrays
}

// Calls over a pipe answer what the functions do, also those that take long and ask a function.
func TestServe(t *testing.T) {
	c := startCaller(t)
	board, text, arrays := c.call("board", "5x4x4", written(40))
	if text != "" || len(arrays) != 1 || arrays[0][0] != 5 || arrays[0][32] != 20 {
		t.Fatalf("board: %d, %q, %v", board, text, arrays)
	}
	result, text, arrays := c.call("parse", board, 2, "1\n12", 4, written(64))
	if result != 0 || text != "" || len(arrays) != 1 {
		t.Fatalf("parse: %d, %q", result, text)
	}
	positions := arrays[0]
	work, text, _ := c.call("search", 0, board, 2, positions, `{"visits":20,"exact":false}`, late(40), late(40), late(40), late(24), late(8), late(2), late(40), late(8), 0, late(0))
	if work <= 0 {
		t.Fatalf("search: %d, %q", work, text)
	}
	for batches := 0; ; {
		event, text, arrays := c.call("wait", work, 1000, written(56))
		if Event(event) == Ended {
			visits := arrays[1]
			if len(arrays) != 10 || batches == 0 || visits[0] == 0 {
				t.Errorf("%d arrays after %d batches: %v", len(arrays), batches, arrays)
			}
			break
		}
		if Event(event) == Nothing {
			continue
		}
		if Event(event) != Asked {
			t.Fatalf("wait: %d, %q", event, text)
		}
		batches++
		rows := int(arrays[0][0])
		wdl, policy := make([]byte, 12*rows), make([]byte, 20*rows)
		for i := 2; i < len(wdl); i += 4 { // 1 as a float32
			copy(wdl[i:], "\x80\x3f")
		}
		if result, text, _ = c.call("answer", work, rows, wdl, policy, ""); result != 0 {
			t.Fatalf("answer: %d, %q", result, text)
		}
	}
	c.call("release", work)
	for _, wrong := range []struct {
		name      string
		arguments []any
		status    int
		says      string
	}{
		{"nothing", nil, -Wrong, "different versions"},
		{"parse", []any{board, 1, "9", 1, written(32)}, -Wrong, "position 0"},
		{"parse", []any{board, 1, "1", 1, written(16)}, -Wrong, "different versions"},
		{"parse", []any{board}, -Wrong, "fault"},
		{"cells", []any{board, -1, []byte{}, written(0)}, -Wrong, "different versions"},
		{"cells", []any{1 << 20, 1, positions[:32], written(20)}, -Wrong, "none of this process"},
		{"wait", []any{work, 1, written(56)}, -Lost, "closed"},
		{"close", []any{work}, -Lost, "closed"},
	} {
		result, text, arrays := c.call(wrong.name, wrong.arguments...)
		if result != wrong.status || !strings.Contains(text, wrong.says) || len(arrays) > 0 {
			t.Errorf("%s %v: %d, %q, want %d, %q", wrong.name, wrong.arguments, result, text, wrong.status, wrong.says)
		}
	}
	gametest.OK(t, c.in.Close())
	gametest.OK(t, <-c.done)
}

// The end of the input ends all that is under way, and half a call is an error.
func TestServeEnds(t *testing.T) {
	c := startCaller(t)
	board, _, _ := c.call("board", "9x8x4", written(40))
	if e, text, _ := c.call("open", `{"backend":"bitsquares"}`); e <= 0 {
		t.Fatal(text)
	}
	for range 3 {
		if work, text, _ := c.call("solve", board, 1, make([]byte, 32), `{}`, late(36)); work <= 0 {
			t.Fatal(text)
		}
	}
	gametest.OK(t, c.in.Close())
	gametest.OK(t, <-c.done)
	for _, damaged := range [][]byte{integers(1)[:3], integers(1, 5), append(integers(1, 0, 1), 'x', 0, 0, 0, 0, 0, 0, 0, 0), integers(1, 1<<41)} {
		c := startCaller(t)
		gametest.Must(c.in.Write(damaged))(t)
		gametest.OK(t, c.in.Close())
		if err := <-c.done; err == nil || !strings.Contains(err.Error(), "a call by the Python package") {
			t.Errorf("%v: %v", damaged, err)
		}
	}
}
