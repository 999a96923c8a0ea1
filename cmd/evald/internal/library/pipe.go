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
const Greeting = "evald library 4\n"

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

// request is a call that has come over the pipe.
type request struct {
	id        int64
	name      string
	work      int64 // number of the Work, for wait and release
	arguments arguments
	written   []array // of kinds w and u
	late      []array // of kind l
}

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
			if len(r.arguments) == 0 {
				r.work = n
			}
			r.arguments = append(r.arguments, argument{number: n})
			continue
		}
		a, err := p.array(kind == 's' || kind == 'r' || kind == 'u')
		if err != nil {
			return cut(err)
		}
		switch kind {
		case 's':
			text := string(a.bytes())
			r.arguments = append(r.arguments, argument{text: &text})
			continue
		case 'r':
		case 'w', 'u':
			r.written = append(r.written, a)
		case 'l':
			r.late = append(r.late, a)
		default:
			return nil, fmt.Errorf("an argument of kind %q", kind)
		}
		r.arguments = append(r.arguments, argument{array: &a})
	}
	return r, nil
}

// answer executes a call and writes its answer.
func (p *pipe) answer(r *request) {
	result, err := p.calls.call(r.name, &r.arguments)
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
