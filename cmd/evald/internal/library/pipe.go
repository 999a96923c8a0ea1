package library

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"unsafe"
)

// Greeting is the first text that Serve writes. Its version number changes whenever a call changes.
const Greeting = "evald library 2\n"

// Statuses of errors.
const (
	Wrong = 1 // an argument is invalid
	Lost  = 2 // no open evaluator or call has this number (ErrLost)
)

// Status is the status of an error.
func Status(err error) int64 {
	if errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) {
		return Lost
	}
	return Wrong
}

// Serve answers the calls of another process until in ends. Calls run concurrently, and are answered in the order in which they end. All
// integers have 64 bits, low byte first. After the greeting,
//
//	a request is  id, text (the call's name), number of arguments, and each argument: its kind, and a number, or a size and the bytes
//	an answer is  id, result (below 0: minus the status of an error), text (the error), number of arrays, and each array: size, bytes
//
// and a text is its size and its bytes. Kinds are letters: n number, s text (size -1: none), r array that the call reads, w array that it
// writes (sent without bytes), u array that it reads and writes, l array that a Work writes later (sent without bytes). An answer has the
// arrays w and u. The answer to the wait in which a Work ends has the Work's arrays l.
func Serve(in io.Reader, out io.Writer, version string) error {
	p := &pipe{calls: Calls{Version: version}, in: bufio.NewReaderSize(in, 1<<16), out: bufio.NewWriterSize(out, 1<<16), late: map[int64][]array{}}
	var answering sync.WaitGroup
	defer func() {
		p.calls.kept.Range(func(number, of any) bool { // Works before evaluators, which they use
			if w, ok := of.(*call); ok {
				w.Release()
			}
			return true
		})
		answering.Wait()
		p.calls.kept.Range(func(number, of any) bool {
			if e, ok := of.(*Evaluator); ok {
				_ = e.Close() // the process is about to end
			}
			return true
		})
	}()
	if _, err := io.WriteString(out, Greeting); err != nil {
		return err
	}
	for {
		r, err := p.read()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("a call by the Python package: %w", err)
		}
		answering.Go(func() { p.answer(r) })
	}
}

type pipe struct {
	calls   Calls
	in      *bufio.Reader
	writing sync.Mutex // guards out and late
	out     *bufio.Writer
	late    map[int64][]array // arrays of kind l by the number of their Work
}

// array is an array in this process, aligned for all types.
type array struct {
	words []uint64
	size  int
}

func (a array) memory() Memory { return Memory{unsafe.Pointer(unsafe.SliceData(a.words)), a.size} }

func (a array) bytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(a.words))), a.size)
}

// request is a call and its arguments, in order by type.
type request struct {
	id      int64
	name    string
	work    int64 // number of the Work, for wait and release
	numbers []int64
	texts   []string
	arrays  []array
	written []array // of kinds w and u
	late    []array // of kind l
}

func (r *request) n() int64  { n := r.numbers[0]; r.numbers = r.numbers[1:]; return n }
func (r *request) s() string { s := r.texts[0]; r.texts = r.texts[1:]; return s }
func (r *request) m() Memory { a := r.arrays[0]; r.arrays = r.arrays[1:]; return a.memory() }

func (p *pipe) integer() (n int64, err error) {
	var b [8]byte
	_, err = io.ReadFull(p.in, b[:])
	return int64(binary.LittleEndian.Uint64(b[:])), err
}

// array reads the size of an array, and its bytes if it has any.
func (p *pipe) array(filled bool) (array, error) {
	size, err := p.integer()
	if err != nil || size < 0 {
		return array{}, err
	}
	if size > 1<<40 {
		return array{}, fmt.Errorf("an array of %d bytes", size)
	}
	a := array{make([]uint64, (size+7)/8), int(size)}
	if filled {
		_, err = io.ReadFull(p.in, a.bytes())
	}
	return a, err
}

// read reads the next call. It returns io.EOF if in ends before it.
func (p *pipe) read() (*request, error) {
	id, err := p.integer()
	if err != nil {
		return nil, err
	}
	r := &request{id: id}
	cut := func(err error) (*request, error) {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	name, err := p.array(true)
	if err != nil {
		return cut(err)
	}
	r.name = string(name.bytes())
	count, err := p.integer()
	if err != nil {
		return cut(err)
	}
	for range count {
		kind, err := p.in.ReadByte()
		if err != nil {
			return cut(err)
		}
		if kind == 'n' {
			n, err := p.integer()
			if err != nil {
				return cut(err)
			}
			r.numbers = append(r.numbers, n)
			continue
		}
		a, err := p.array(kind == 's' || kind == 'r' || kind == 'u')
		if err != nil {
			return cut(err)
		}
		switch kind {
		case 's':
			r.texts = append(r.texts, string(a.bytes()))
			continue
		case 'r':
		case 'w', 'u':
			r.written = append(r.written, a)
		case 'l':
			r.late = append(r.late, a)
		default:
			return nil, fmt.Errorf("an argument of kind %q", kind)
		}
		r.arrays = append(r.arrays, a)
	}
	if (r.name == "wait" || r.name == "release") && len(r.numbers) > 0 {
		r.work = r.numbers[0]
	}
	return r, nil
}

// answer executes a call and writes its answer.
func (p *pipe) answer(r *request) {
	result, err := p.call(r)
	text := ""
	if err != nil {
		result, text, r.written = -Status(err), err.Error(), nil
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	switch {
	case len(r.late) > 0 && err == nil:
		p.late[result] = r.late
	case r.name == "wait" && err == nil && Event(result) == Ended:
		r.written = append(r.written, p.late[r.work]...)
	case r.name == "release":
		delete(p.late, r.work)
	}
	var head []byte
	integer := func(n int64) { head = binary.LittleEndian.AppendUint64(head, uint64(n)) }
	integer(r.id)
	integer(result)
	integer(int64(len(text)))
	head = append(head, text...)
	integer(int64(len(r.written)))
	_, _ = p.out.Write(head) // Flush returns its error
	for _, a := range r.written {
		_, _ = p.out.Write(binary.LittleEndian.AppendUint64(nil, uint64(a.size)))
		_, _ = p.out.Write(a.bytes())
	}
	_ = p.out.Flush() // after an error the caller is gone, and in ends, too
}

// call executes a call. Arguments that are missing, which a package of another version causes, are
// a fault.
func (p *pipe) call(r *request) (result int64, err error) {
	f, ok := table[r.name]
	if !ok {
		return 0, fmt.Errorf("there is no call %q: the Python package and the program are of different versions", r.name)
	}
	return p.calls.Try(func() (int64, error) { return f(&p.calls, r) })
}

// table has the calls by name. Each takes its arguments from the request in order.
var table = map[string]func(c *Calls, r *request) (int64, error){
	"about":      func(c *Calls, r *request) (int64, error) { return c.About(r.m(), r.n()), nil },
	"board":      func(c *Calls, r *request) (int64, error) { return c.Board(r.s(), r.m()) },
	"parse":      func(c *Calls, r *request) (int64, error) { return 0, c.Parse(r.n(), r.n(), r.s(), r.m()) },
	"check":      func(c *Calls, r *request) (int64, error) { return 0, c.Check(r.n(), r.n(), r.m()) },
	"from_cells": func(c *Calls, r *request) (int64, error) { return 0, c.FromCells(r.n(), r.n(), r.m(), r.n(), r.m()) },
	"cells":      func(c *Calls, r *request) (int64, error) { return 0, c.Cells(r.n(), r.n(), r.m(), r.m()) },
	"planes":     func(c *Calls, r *request) (int64, error) { return 0, c.Planes(r.n(), r.n(), r.s(), r.m(), r.m()) },
	"legal":      func(c *Calls, r *request) (int64, error) { return 0, c.Legal(r.n(), r.n(), r.m(), r.m()) },
	"results":    func(c *Calls, r *request) (int64, error) { return 0, c.Results(r.n(), r.n(), r.m(), r.m()) },
	"step": func(c *Calls, r *request) (int64, error) {
		return 0, c.Step(r.n(), r.n(), r.m(), r.m(), r.m(), r.m(), r.n())
	},
	"open":      func(c *Calls, r *request) (int64, error) { return c.Open(r.s()) },
	"evaluator": func(c *Calls, r *request) (int64, error) { return c.Evaluator(r.n(), r.m(), r.n()) },
	"close":     func(c *Calls, r *request) (int64, error) { return 0, c.Close(r.n()) },
	"evaluate": func(c *Calls, r *request) (int64, error) {
		return 0, c.Evaluate(r.n(), r.n(), r.n(), r.m(), r.m(), r.m(), r.m())
	},
	"search": func(c *Calls, r *request) (int64, error) {
		return c.Search(r.n(), r.n(), r.n(), r.m(), r.s(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m())
	},
	"solve":    func(c *Calls, r *request) (int64, error) { return c.Solve(r.n(), r.n(), r.m(), r.s(), r.m()) },
	"selfplay": func(c *Calls, r *request) (int64, error) { return c.Play(r.n(), r.n(), r.s()) },
	"records":  func(c *Calls, r *request) (int64, error) { return c.Records(r.s(), r.m(), r.n()) },
	"read": func(c *Calls, r *request) (int64, error) {
		return c.Read(r.n(), r.n(), r.s(), r.n(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m(), r.m())
	},
	"wait": func(c *Calls, r *request) (int64, error) {
		event, err := c.Wait(r.n(), r.n(), r.m())
		return int64(event), err
	},
	"batch":   func(c *Calls, r *request) (int64, error) { return 0, c.Batch(r.n(), r.n(), r.m()) },
	"answer":  func(c *Calls, r *request) (int64, error) { return 0, c.Answer(r.n(), r.n(), r.m(), r.m(), r.s()) },
	"game":    func(c *Calls, r *request) (int64, error) { return 0, c.Game(r.n(), r.m(), r.m(), r.m(), r.m(), r.m()) },
	"release": func(c *Calls, r *request) (int64, error) { return 0, c.Release(r.n()) },
}
