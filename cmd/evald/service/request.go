package service

import (
	"context"
	"crypto/tls"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/queue"
	"github.com/evald/evald/engine/short"
)

// request is a request in progress over either transport, with its connection, parameters, memory and answer. It is not safe for
// concurrent use.
type request struct {
	conn *connection
	hold // its memory and places, see admission.go

	protocol  string // "HTTP/1.1", "gRPC" or "gRPC stream"
	method    string // such as "GET", or the full name of a gRPC method
	path      string // of HTTP requests
	remote    string // the client's address, with a port unless a proxy has named it
	forwarded string // as remote if a trusted proxy has named the client, else ""
	began     time.Time
	asked     time.Time // start of the timeout; over gRPC, when the message has arrived
	group     group
	token     *tokenLine // nil if there is no token, or an unknown one
	shown     string     // name in the client's certificate
	tls       *tls.ConnectionState
	access    *Access // that allowed the call
	secret    string  // the token as the client has sent it
	model, id string
	rows      int // 0 if unknown

	// The fields below are for inference.
	version string
	parameters
	input   tensor
	wrong   []string     // with the parameter "partial": the reason of each invalid row, "" for valid ones
	outputs []string     // requested outputs; none stands for all
	copies  int          // memory of the encoded answer as a multiple of its raw size; 0 stands for 1
	client  queue.Client // its place in the model's queue
	waited  queue.Timing
	times   times
	answer  answer
	rule    string       // of a search, in words
	report  func() error // sends answer as an intermediate result; nil if the transport allows only one answer
}

// from returns the text under which the request's client is counted, see addressOf.
func (r *request) from() string {
	if r.forwarded != "" {
		return addressOf(r.forwarded)
	}
	return r.conn.from
}

// came notes where a request comes from. forwarded are the values of its X-Forwarded-For.
func (r *request) came(proxies Proxies, forwarded []string) {
	r.remote = proxies.client(r.conn.remote, forwarded)
	if r.remote != r.conn.remote {
		r.forwarded = r.remote
	}
}

type requestKey struct{}

// requestOf returns the request of a context.
func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

func (r *request) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, requestKey{}, r)
}

// knows marks the client of an answered request as known if it has a valid token or no tokens are required.
func (s *Server) knows(r *request) {
	if r.group != healthCalls && (s.access.Load().Tokens == nil || r.token != nil) {
		r.conn.know()
	}
}

// parameters are the parameters of a request. They have the same names in both transports.
type parameters struct {
	board       *game.Board    // "board": rules such as "9x5x4"; nil if not given
	search      ask.Search     // parameters of a search by their names; Exact is also that of the exact step
	searches    string         // one of these that only searches have, "" if none is given
	nodes       int            // "nodes" of the solver
	priority    queue.Priority // "priority": 1 is the highest, 3 the lowest; 2 if not given
	timeout     time.Duration  // "timeout" in microseconds
	anyPosition bool           // "any_position": accept positions that no game reaches
	raw         bool           // "raw": the model's own answers, without the rules step; a finished game is refused
	partial     bool           // "partial": invalid rows do not fail the request
	progress    bool           // "progress": a search also reports results after 64 visits, 128, 256 and so on
}

// longestRules is the maximum length of the parameter "board" in bytes.
const longestRules = 64

// set sets one parameter; value is a bool, int64, uint64, float64 or string.
func (s *Server) set(p *parameters, name string, value any) error {
	var largest int64
	switch name {
	case "board":
		text, ok := value.(string)
		if !ok {
			return invalid("parameter %q: %v, must be a string such as \"9x5x4\"", name, value)
		}
		if len(text) > longestRules {
			return invalid("parameter %q: %q: has more than %d bytes", name, short.To(text, longestRules), longestRules)
		}
		var err error
		if p.board, err = s.boards.Parse(text); err != nil {
			return invalid("parameter %q: %s", name, err)
		}
		return nil
	case "raw", "progress", "partial", "any_position":
		return setBool(map[string]*bool{"raw": &p.raw, "progress": &p.progress, "partial": &p.partial, "any_position": &p.anyPosition}[name], name, value)
	case "visits", "nodes":
		largest = math.MaxInt64 >> 1 // evaluate checks the model's maximum
	case "priority":
		largest = 3
	case "timeout":
		largest = int64(s.config.Limits.Timeout / time.Microsecond)
	case "sequence_id", "sequence_start", "sequence_end":
		return refuse(codes.Unimplemented, "parameter %q: no model here keeps a state between requests", name)
	case "triton_enable_empty_final_response": // tritonclient sends it on streams; it has no effect, because no answer is empty
		return nil
	default:
		f, ok := ask.Named(name, ask.Service)
		if !ok {
			return invalid("parameter %q: must be board, %s, nodes, priority, timeout, progress, partial, raw or any_position", name, strings.Join(ask.Names(ask.Service), ", "))
		}
		if !f.Set(&p.search, value) {
			return invalid("parameter %q: %v, must be %s", name, value, f.Must())
		}
		if name != "exact" {
			p.searches = name
		}
		return nil
	}
	number, ok := int64(0), true
	switch v := value.(type) {
	case int64:
		number = v
	case uint64:
		number, ok = int64(v), v < 1<<62
	case float64:
		number = int64(v)
		ok = float64(number) == v && v >= 0 && v < 1<<62
	default:
		ok = false
	}
	if !ok || number < 0 || number > largest && name != "timeout" {
		return notInRange(name, value, largest)
	}
	switch name {
	case "visits":
		if p.search.Visits = int(number); number > 0 {
			p.searches = name
		}
	case "nodes":
		p.nodes = int(number)
	case "priority":
		p.priority = [...]queue.Priority{queue.Normal, queue.High, queue.Normal, queue.Low}[number]
	case "timeout":
		p.timeout = time.Duration(min(number, largest)) * time.Microsecond
	}
	return nil
}

func setBool(to *bool, name string, value any) (err error) {
	on, ok := value.(bool)
	if *to = on; !ok {
		err = invalid("parameter %q: %v, must be true or false", name, value)
	}
	return err
}

func notInRange[T int | int64](name string, value any, largest T) error {
	return invalid("parameter %q: %v, must be a whole number from 0 to %d", name, value, largest)
}

// answer is the answer to a request. The values of all outputs are in one memory, which release returns to a pool.
type answer struct {
	version string
	outputs []tensor
	memory  *[]byte
}

var memories = sync.Pool{New: func() any { return new([]byte) }}

// release returns the memory of the outputs to its pool; they must not be used any more.
func (a *answer) release() {
	if a.memory != nil {
		memories.Put(a.memory)
		*a = answer{}
	}
}

// infer computes the answer to a request. Errors are gRPC statuses.
func (s *Server) infer(ctx context.Context, r *request) (err error) {
	m, err := s.models.hold(r.model, r.version)
	if err != nil {
		return err
	}
	r.served = m
	defer r.computed()
	m.stats.update(func(c *counts) { c.pending++ })
	defer func() {
		if p := recover(); p != nil { // a panic in one request must not end the others
			s.config.Log.Error("a request panicked", "model", r.model, "panic", p)
			err = refuse(codes.Internal, "model %s: the request had a fault; the log has the details", r.model)
		}
		r.times.total = time.Since(r.asked)
		m.stats.update(func(c *counts) { c.end(&r.times, r.rows, err) })
	}()
	ctx, cancel := context.WithDeadline(ctx, r.deadline(m))
	defer cancel()
	return s.evaluate(ctx, m, r)
}

var batches = sync.Pool{New: func() any { return new(eval.Batch) }}

func (s *Server) evaluate(ctx context.Context, m *model, r *request) (err error) {
	if r.board == nil {
		r.board = s.board
	}
	switch {
	case r.search.Visits > m.MaxVisits:
		return notInRange("visits", r.search.Visits, m.MaxVisits)
	case r.searches != "" && !m.searches:
		return invalid("parameter %q: model %s does not search; %q does", r.searches, m.name, searchModel)
	case r.nodes > m.MaxNodes:
		return notInRange("nodes", r.nodes, m.MaxNodes)
	case r.nodes > 0 && !m.solves():
		return invalid("parameter \"nodes\": model %s does not solve", m.name)
	case r.search.Exact > 0 && m.solves():
		return invalid("parameter \"exact\": model %s solves by itself", m.name)
	case r.search.Exact > 0 && r.raw && !m.searches:
		return invalid("parameter \"exact\": does nothing with \"raw\", which asks for the model's own answers: leave one out")
	case r.progress && !m.searches:
		return invalid("parameter \"progress\": model %s does not search; %q does", m.name, searchModel)
	case r.progress && r.report == nil:
		return invalid("parameter \"progress\": needs an answer of several parts: ModelStreamInfer, or over REST the header Accept: text/event-stream")
	}
	if r.rows, err = r.input.rows(r.board, s.config.Limits.Batch); err != nil {
		return err
	}
	names, err := m.wanted(r.outputs, r.partial)
	if err != nil {
		return err
	}
	if err := s.admit(ctx, r, names); err != nil {
		return err
	}
	b := batches.Get().(*eval.Batch)
	defer batches.Put(b)
	b.Reset(r.board, r.rows)
	var board *game.Board
	if r.partial {
		board, err = r.readRows(b)
	} else {
		board, err = r.input.positions(r.board, b.Pos, r.anyPosition)
	}
	if err != nil {
		return err
	}
	if board != r.board || r.partial { // rows of the input "moves" may name another board, which may take more memory
		r.board = board
		if err := s.admit(ctx, r, names); err != nil {
			return err
		}
		b.Reset(board, len(b.Pos))
	}
	r.rows = len(b.Pos)
	if err := m.evaluator.Supports(r.board); err != nil {
		return toStatus(err)
	}
	if r.raw && !r.partial { // readRows has checked the rows of partial requests
		if err := b.Unfinished(); err != nil {
			return invalid("input %q: %s", r.input.name, err)
		}
	}
	t := &r.times
	t.input = time.Since(r.asked)
	var f *found
	switch {
	case r.rows == 0: // all rows are invalid
		f = new(found)
	case m.searches:
		f, err = s.search(ctx, m, r, b, names)
		r.waited.Computed = time.Since(r.asked) - t.input
	case m.solves():
		f, err = s.solve(ctx, m, r, b)
	default:
		err = s.evaluateRows(ctx, m, r, b)
	}
	t.queue, t.infer = r.waited.Queued, r.waited.Computed
	r.trace(ctx)
	if err != nil {
		return toStatus(err)
	}
	start := time.Now()
	r.answer = encode(m.Version, names, b, f, r.wrong)
	if f != nil {
		founds.Put(f)
	}
	t.output = time.Since(start)
	return nil
}

// evaluator returns the model's evaluator; its rows join the queue as those of c, and waited gets
// their times. It is nil for searches, whose batches are concurrent.
func (r *request) evaluator(m *model, c queue.Caller, waited *queue.Timing) *eval.Evaluator {
	r.client = queue.Client{Batcher: m.batcher, Caller: c, Timing: waited}
	return m.evaluator.WithBackend(&r.client)
}

// ask evaluates a batch, without the rules step if the parameter "raw" is set.
func (r *request) ask(ctx context.Context, e *eval.Evaluator, b *eval.Batch) error {
	if r.raw {
		return e.Leaves(ctx, b)
	}
	return e.Evaluate(ctx, b)
}

// encode writes the outputs into the answer's memory.
func encode(version string, names []string, b *eval.Batch, f *found, wrong []string) answer {
	rows, size := max(len(b.Pos), len(wrong)), 0
	for _, name := range names {
		size += rows * outputs[name].room(b.Board)
	}
	a := answer{version, make([]tensor, len(names)), memories.Get().(*[]byte)}
	memory := slices.Grow((*a.memory)[:0], size)
	shapes := make([]int64, 2*len(names))
	for i, name := range names {
		shape, at, o := shapes[2*i:2*i+2:2*i+2], len(memory), outputs[name]
		shape[0], shape[1] = int64(rows), int64(o.columns(b.Board))
		if wrong == nil {
			memory = o.write(memory, b, f)
		} else {
			memory = appendPartial(memory, name, b, f, wrong)
		}
		a.outputs[i] = tensor{name: name, datatype: o.datatype, shape: shape, raw: memory[at:len(memory):len(memory)]} // remains valid if append moves memory
	}
	*a.memory = memory
	return a
}
