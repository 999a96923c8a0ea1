// Package service gives other programs the evaluator: the Open Inference Protocol (KServe v2) over gRPC and REST, as
// Triton Inference Server speaks it.
//
// Command evald serves with it, and so can any other program: New makes a Server of a Config, Serve answers until its context
// ends. The example shows all of it; package nn/open makes the models that Config.Load returns. Package client is the other
// end.
//
// Requests of both transports become the same call. The eval.Evaluator merges it with others, and each output that the request
// names goes back as one tensor.
//
// Read the files in this order:
//
//	config.go, server.go                  Config; Server, from New to the last answer
//	model.go, load.go                     a served model and its generations; how they are exchanged
//	describe.go                           what clients are told of models
//	request.go, requestlog.go             one request of either transport; its record in the log
//	admission.go                          which requests are refused, which wait, and what they hold
//	grpc.go, message.go, stream.go        gRPC: calls, the memory of messages, streams
//	http.go, rest.go                      the HTTP port, REST's paths
//	rest_call.go, rest_infer.go, body.go  a REST request: its parameters, its tensors, its body
//	tensor.go, partial.go                 inputs and outputs; rows that fail alone
//	search.go, solve.go, exact.go         the models search and solver; what ordinary models prove
//	connections.go, auth.go, errors.go    connections; tokens; errors
//	metrics.go, trace.go                  what is counted and traced
//
// The page of package kserve has the inputs, the outputs and the parameters.
//
// # Decisions
//
// One request object (request.go) follows a request of either transport from the connection to the answer. What it takes is taken before
// it is there, is never waited for but in two queues, and is given back in one place (admission.go).
//
// REST's JSON is read token by token (rest_call.go), so that a zipped body is refused at the point at which it first asks for too
// much. gRPC reads messages whole: in a slot with room for the longest. What it becomes when it is decoded is counted before that, and
// its answer until it was written (message.go). A stream has room for the longest message all the time.
//
// A client that was answered before keeps its place. Connections (connections.go) and slots of unknown clients are evicted first.
// During a rush an address that is not known can take a quarter of a port, and health has connections in reserve.
//
// Errors are gRPC's statuses in both transports, and inputs raw little-endian bytes in both: JSON and typed lists are
// turned into them, so that one reader checks and decodes.
package service

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/evald/evald/cmd/evald/service/origin"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// Loaded is a model that is ready to evaluate.
type Loaded struct {
	Backend  eval.Backend
	Version  string // as replies give it
	Platform string // NetworkPlatform, HeuristicPlatform or SolverPlatform
	Describe string // how it computes, for people
	InFlight int    // batches that it takes at once in all, unless Settings say; 0 is 2

	// Devices are the GPUs that compute for it, for the metrics; nil: none does.
	Devices func() []Device

	// Close gives back what the evaluator holds. It is called once, after the last batch; nil: there is nothing to do.
	Close func() error
}

// Device is what a GPU has done for a model.
type Device struct {
	Index                  int  // the driver's number
	Working                bool // false after a fault, until it works again
	Lost                   bool // after a fault that only a new process can mend
	Rows, Launches, Faults uint64
	Busy                   time.Duration // while launches were under way
}

// Config is what a Server serves, and to whom. Models, Load and Rules must be set. Zero Limits stand for the defaults below,
// and zero values of the other fields serve plainly.
type Config struct {
	Version string     // of the program
	Rules   game.Rules // of the board that positions are on if the request names no other

	Models     []Model                     // served from the start; the model "search" searches with the first
	Reread     func() ([]Model, error)     // reads Models anew, for a reload; nil: they stay the same
	Load       func(Model) (Loaded, error) // makes a model ready, at the start, when it is loaded and when it is reloaded
	Available  func() []string             // names that may be loaded; needed with Repository alone
	Bytes      func(Model) (int64, error)  // memory that a model takes, of Limits.Memory; nil: none
	Changed    func(Model) (any, error)    // a comparable value that changes if the model's file does; nil: no file ever changes
	Watch      time.Duration               // how often Reread and Changed are asked; 0 is never
	Repository bool                        // models may be loaded and unloaded by request
	Settings   Settings                    // of models that have none of their own; zero: the defaults
	Limits     Limits

	TLS     *tls.Config    // of both ports; nil is none
	Tokens  *Tokens        // which token may call what; nil: every client may call everything
	Origins *origin.Policy // whose pages may call the service in people's browsers; nil: its own alone

	Log    *slog.Logger         // nil: nothing is logged
	Traces trace.TracerProvider // nil: there are none

	DrainDelay time.Duration // how long requests are still taken after readiness has ended
	DrainTime  time.Duration // how long requests under way may then take
}

// Model is a model to serve. Several versions of one name may be served at once.
type Model struct {
	Name    string // by which requests name it
	Version string // the version that Load must find; empty: any, which a reload may change
	File    string // what Load opens; the service does not look at it,
	Backend string // nor at this
	Settings
}

// Ref is NAME@VERSION, or the name alone if any version will do.
func (m Model) Ref() string {
	if m.Version == "" {
		return m.Name
	}
	return m.Name + "@" + m.Version
}

// Settings are how a model is served.
type Settings struct {
	MaxRows   int              // of a batch
	MaxDelay  time.Duration    // that a request waits for others while the evaluator is busy
	MaxQueued int              // rows that wait; more are refused
	MaxWait   [3]time.Duration // that a request waits for its first batch, by priority, the highest first; 0: until its deadline
	InFlight  int              // batches under way at once, for each GPU if there are any; 0 is what Loaded says
	Timeout   time.Duration    // of a request that sets no shorter one; 0 is that of Limits, which is the most
	Cache     int              // answers of a network that are kept; 0 is none
	WarmUp    int              // rows that are evaluated before the model is ready

	Visits, MaxVisits int // of each position that is searched with the model: if the request does not say; that it may ask for
	Nodes, MaxNodes   int // of each position that the solver searches, likewise

	Exact solver.Nodes // of the exact step (eval.NewExact) of requests that do not say; 0 is none
}

// Limits bound what one request can cost.
type Limits struct {
	Body        int           // bytes of a request, also after it was decompressed
	Batch       int           // positions of a request
	Requests    int           // under way at once, over both ports
	Streams     int           // at once of one gRPC connection
	Connections int           // to each port
	Memory      int64         // bytes of all models and requests together: what was read of them, their searches, their answers
	Timeout     time.Duration // of any model's request; connections last as long
	Receive     time.Duration // for a request to come whole
}

// Defaults for what is not given.
var (
	DefaultSettings = Settings{
		MaxRows: 256, MaxDelay: time.Millisecond, MaxQueued: 131072, Visits: 800, MaxVisits: 100_000, Nodes: 1_000_000, MaxNodes: 10_000_000,
	}
	DefaultLimits = Limits{
		Body: 8 << 20, Batch: 4096, Requests: 4096, Streams: 1024, Connections: 1024, Memory: 1 << 30,
		Timeout: 30 * time.Second, Receive: 10 * time.Second,
	}
)

// LeastMemory is the least part of Limits.Memory, in bytes, that models leave to requests if Limits.Body is body.
func LeastMemory(body int) int64 { return 8 * int64(body) }

// validate is an error for values out of range. It fills in the log and the defaults.
func (c *Config) validate() error {
	c.Settings, c.Limits = cmp.Or(c.Settings, DefaultSettings), cmp.Or(c.Limits, DefaultLimits)
	switch {
	case c.Load == nil:
		return fmt.Errorf("no function that loads models")
	case c.Repository && c.Available == nil:
		return fmt.Errorf("no function that names the models that may be loaded")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := inRanges([]ranged{
		{"body bytes", int64(c.Limits.Body), 1 << 10, 1 << 30},
		{"positions of a request", int64(c.Limits.Batch), 1, 1 << 20},
		{"requests", int64(c.Limits.Requests), 1, 1 << 20},
		{"streams", int64(c.Limits.Streams), 1, 1 << 20},
		{"connections", int64(c.Limits.Connections), 1, 1 << 20},
		{"memory of models and requests", c.Limits.Memory, LeastMemory(c.Limits.Body), 1 << 50},
		{"timeout", int64(c.Limits.Timeout), int64(time.Millisecond), int64(24 * time.Hour)},
		{"time to receive", int64(c.Limits.Receive), int64(time.Millisecond), int64(time.Hour)},
	}); err != nil {
		return err
	}
	return c.complete(c.Models)
}

// complete gives models without settings the defaults. It is an error if there is no model, if two have the same name and version,
// or if a value is out of range.
func (c *Config) complete(models []Model) error {
	if len(models) == 0 {
		return fmt.Errorf("no model to serve")
	}
	for i := range models {
		m := &models[i]
		m.Settings = cmp.Or(m.Settings, c.Settings)
		m.Timeout = cmp.Or(m.Timeout, c.Limits.Timeout)
		if m.Name == "" || m.Name == searchModel || contains(models[:i], m.Ref()) {
			return fmt.Errorf("model %q: the name is empty, or stands for another model", m.Ref())
		}
		if m.Timeout > c.Limits.Timeout {
			return fmt.Errorf("model %s: timeout %v: is longer than any at the start, %v: restart the service", m.Ref(), m.Timeout, c.Limits.Timeout)
		}
		if err := inRanges([]ranged{
			{"rows of a batch", int64(m.MaxRows), 1, 1 << 20},
			{"batches in flight", int64(m.InFlight), 0, 1 << 10},
			{"queued rows", int64(m.MaxQueued), 1, 1 << 30},
			{"queue delay", int64(m.MaxDelay), 0, int64(time.Minute)},
			{"time in the queue", int64(slices.Min(m.MaxWait[:])), 0, int64(24 * time.Hour)},
			{"timeout", int64(m.Timeout), int64(time.Millisecond), int64(24 * time.Hour)},
			{"visits", int64(m.Visits), 1, int64(m.MaxVisits)},
			{"largest visits", int64(m.MaxVisits), 1, 1 << 26},
			{"nodes", int64(m.Nodes), 1, int64(m.MaxNodes)},
			{"largest nodes", int64(m.MaxNodes), 1, 1 << 40},
			{"exact nodes", int64(m.Exact), 0, solver.MostNodes},
			{"cache entries", int64(m.Cache), 0, 1 << 30},
			{"rows to warm up", int64(m.WarmUp), 0, 1 << 20},
		}); err != nil {
			return fmt.Errorf("model %s: %w", m.Ref(), err)
		}
	}
	return nil
}

// ranged is a value and its bounds.
type ranged struct {
	name            string
	value, min, max int64
}

func inRanges(all []ranged) error {
	for _, f := range all {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("%s: %d, must be %d to %d", f.name, f.value, f.min, f.max)
		}
	}
	return nil
}
