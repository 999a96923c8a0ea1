// Package service serves evaluators to other programs: the Open Inference Protocol (KServe v2) over gRPC and REST, with
// Triton Inference Server's extensions.
//
// Command evald and any other program can serve with it: New makes a Server of a Config, and Serve answers until its context
// ends, as in the example. Package nn/open makes the models that Config.Load returns. Package client is a client.
//
// Requests of both transports become the same call. The model's queue.Batcher merges the rows of concurrent calls into batches. Each
// requested output is returned as one tensor.
//
// Read the files in this order:
//
//	config.go, server.go                  Config; Server, from New to the last answer
//	model.go, load.go                     a served model and its generations; how they are replaced
//	describe.go                           metadata of models for clients
//	request.go, requestlog.go             a request of either transport; its record in the log
//	admission.go                          which requests are refused or wait; the memory and places that they hold
//	grpc.go, message.go, stream.go        gRPC: calls, the memory of messages, streams
//	http.go, rest.go                      the HTTP port, REST's paths
//	rest_call.go, rest_infer.go, body.go  a REST request: its parameters, its tensors, its body
//	tensor.go, partial.go                 inputs and outputs; rows that fail alone
//	search.go, solve.go, exact.go         the models search and solver; proofs of ordinary models
//	connections.go, proxies.go            connections, and whose they are behind proxies
//	auth.go, access.go                    tokens; certificates and tokens that are exchanged at a reload
//	headers.go, errors.go                 the length of headers; errors
//	metrics.go, clients.go, trace.go      metrics, those by client, and traces
//
// The page of package kserve has the inputs, the outputs and the parameters.
//
// # Decisions
//
// One request object (request.go) follows a request of either transport from the connection to the answer. Its memory is reserved before
// it is allocated, and released in one place (admission.go). A request waits in only two queues, and a large search for its place.
//
// REST's JSON is read token by token (rest_call.go), so that a compressed body is refused as soon as it exceeds a limit. gRPC reads whole
// messages, in a slot with room for the longest one. The memory of a message is reserved before it is decoded, and the memory of an answer
// until it is written (message.go). Each stream reserves room for the longest message.
//
// Connections of unknown clients are evicted first (connections.go), and their messages get slots last, so that clients that were answered
// before keep their service. Under overload an unknown address can have a quarter of a port's connections. Spare connections are reserved
// for calls of health.
//
// Both transports use gRPC's statuses as errors. The values of inputs are raw little-endian bytes; JSON and typed lists are converted to
// them, so that one reader checks and decodes all inputs.
package service

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/evald/evald/cmd/evald/service/origin"
	"github.com/evald/evald/engine/ask"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/solver"
)

// Loaded is a model that is ready to evaluate.
type Loaded struct {
	Backend  eval.Backend
	Version  string // reported in replies
	Platform string // NetworkPlatform, HeuristicPlatform or SolverPlatform
	Describe string // a text that says how it computes
	InFlight int    // maximum number of concurrent batches if Settings.InFlight is 0; 0 stands for 2

	// Devices returns the GPUs that compute for the model, for the metrics. It is nil if the model uses no GPU.
	Devices func() []Device
	NoGPU   bool // the machine has GPUs that should compute for the model, but none worked when it was loaded

	// Close releases the evaluator's resources. It is called once, after the last batch. It may be nil.
	Close func() error
}

// Device is the state and the usage of a GPU that computes for a model.
type Device struct {
	Index                  int  // the driver's number
	Working                bool // false after a fault, until the GPU works again
	Lost                   bool // true after a fault from which only a new process recovers
	Rows, Launches, Faults uint64
	Busy                   time.Duration // total time of launches
}

// Config is the configuration of a Server. Models, Load and Rules must be set. Zero Limits and Settings stand for the defaults below. The
// zero value of any other field turns its feature off.
type Config struct {
	Version string     // of the program, for the server's metadata
	Rules   game.Rules // board of requests that name none

	Models     []Model                     // served from the start; the model "search" searches with the first of them
	Reread     func() ([]Model, error)     // returns the new Models at a reload; nil: they stay the same
	Load       func(Model) (Loaded, error) // loads a model: at the start, when a client asks for it, and at a reload
	Available  func() []string             // names that clients may load; needed only with Repository
	Bytes      func(Model) (int64, error)  // memory of a model, which counts against Limits.Memory; nil: 0
	Changed    func(Model) (any, error)    // returns a comparable value that differs after the model's file has changed; nil: files never change
	Watch      time.Duration               // interval between calls of Reread, Changed and ReadAccess; 0 is never
	Repository bool                        // clients may load and unload models
	Settings   Settings                    // of models without settings of their own
	Limits     Limits

	Access                 // of a server without ReadAccess, for good
	Origins *origin.Policy // sites whose pages may call the service from browsers; nil: only its own

	Proxies       Proxies // name their clients by X-Forwarded-For
	ProxyProtocol bool    // the connections of Proxies begin with a header of the PROXY protocol, which names the client

	// ReadAccess returns the Access at the start and at a reload, and a comparable value that
	// differs after one of its files has changed, also if the error is not nil. If a reload fails,
	// the old Access stays. It may be nil.
	ReadAccess func() (Access, any, error)

	Log       *slog.Logger         // nil: no log
	LinesLost func() uint64        // lines that the log has lost, for the metrics; nil: none
	Traces    trace.TracerProvider // nil: no traces

	DrainDelay time.Duration // how long the server still accepts requests after it reports that it is not ready
	DrainTime  time.Duration // time limit for answering the accepted requests after that
}

// Model is a model to serve. Several versions of one name may be served at once.
type Model struct {
	Name    string // the name in requests
	Version string // the version that Load must find; empty: any, which a reload may change
	File    string // for Load; the service does not interpret it
	Backend string // for Load, likewise
	Settings
}

// Ref returns NAME@VERSION, or the name alone if Version is empty.
func (m Model) Ref() string {
	if m.Version == "" {
		return m.Name
	}
	return m.Name + "@" + m.Version
}

// Settings are the settings of a served model.
type Settings struct {
	MaxRows   int              // maximum number of rows of a batch
	MaxDelay  time.Duration    // how long a request waits for others while the evaluator is busy
	MaxQueued int              // maximum number of rows that wait; more are refused
	MaxWait   [3]time.Duration // how long a request of priority 1, 2 and 3 waits for its first batch; 0: until its deadline
	InFlight  int              // concurrent batches, per GPU if there are any; 0: Loaded.InFlight
	Timeout   time.Duration    // of a request that sets no shorter one; 0: Limits.Timeout, which is also the maximum
	Cache     int              // number of a network's answers that are cached; 0 is none
	WarmUp    int              // number of rows that are evaluated before the model is ready

	Visits, MaxVisits int // per position of a search with the model: default and maximum of the request's parameter
	Nodes, MaxNodes   int // per position that the solver searches: default and maximum of the request's parameter

	Exact solver.Nodes // nodes of the exact step (eval.NewExact) for requests without the parameter; 0: no exact step
}

// Limits bound the length, time and memory of requests.
type Limits struct {
	Body        int           // bytes of a request, before and after decompression
	Batch       int           // positions of a request
	Requests    int           // concurrent requests of both ports
	Streams     int           // concurrent requests of one gRPC connection
	Connections int           // of each port
	Address     int           // connections of one address to a port; 0: half of Connections
	Memory      int64         // bytes of all models and requests together, with messages, searches and answers
	Page        int64         // bytes of what the page computes, besides Memory; 0: as many as it needs
	Timeout     time.Duration // maximum of Settings.Timeout; reading and writing on a connection may take as long
	Headers     time.Duration // for the headers of a request to arrive
	Receive     time.Duration // for the rest of a request to arrive
	Idle        time.Duration // how long a connection without requests stays open; 0: 5 minutes
	Age         time.Duration // after which a client is asked to use another connection; 0: never
}

// Defaults.
var (
	DefaultSettings = Settings{
		MaxRows: 256, MaxDelay: time.Millisecond, MaxQueued: 131072, Visits: ask.Usual().Visits, MaxVisits: 100_000, Nodes: 1_000_000, MaxNodes: 10_000_000,
	}
	DefaultLimits = Limits{
		Body: 8 << 20, Batch: 4096, Requests: 4096, Streams: 1024, Connections: 1024, Memory: 1 << 30,
		Timeout: 30 * time.Second, Headers: 10 * time.Second, Receive: 10 * time.Second, Idle: 5 * time.Minute,
	}
)

// LeastMemory returns the number of bytes of Limits.Memory that are reserved for requests if Limits.Body is body.
func LeastMemory(body int) int64 { return 8 * int64(body) }

// validate fills in the log and the defaults, and returns an error for values out of range.
func (c *Config) validate() error {
	c.Settings, c.Limits = cmp.Or(c.Settings, DefaultSettings), cmp.Or(c.Limits, DefaultLimits)
	c.Limits.Idle = cmp.Or(c.Limits.Idle, DefaultLimits.Idle)
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
		{"connections of an address", int64(c.Limits.Address), 0, int64(c.Limits.Connections)},
		{"memory of models and requests", c.Limits.Memory, LeastMemory(c.Limits.Body), 1 << 50},
		{"memory of the page", c.Limits.Page, 0, 1 << 50},
		{"timeout", int64(c.Limits.Timeout), int64(time.Millisecond), int64(24 * time.Hour)},
		{"time of headers", int64(c.Limits.Headers), int64(time.Millisecond), int64(time.Hour)},
		{"time to receive", int64(c.Limits.Receive), int64(time.Millisecond), int64(time.Hour)},
		{"idle time", int64(c.Limits.Idle), int64(time.Millisecond), int64(24 * time.Hour)},
		{"age of a connection", int64(c.Limits.Age), 0, int64(8760 * time.Hour)},
	}); err != nil {
		return err
	}
	return c.complete(c.Models)
}

// complete gives models without settings the defaults. It returns an error if there is no model, if two have the same name and version, or
// if a value is out of range.
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
			{"largest visits", int64(m.MaxVisits), 1, ask.MostVisits},
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
