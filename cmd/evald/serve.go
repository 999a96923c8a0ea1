package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/evald/evald/cmd/evald/internal/web"
	"github.com/evald/evald/cmd/evald/service"
	"github.com/evald/evald/cmd/evald/service/origin"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/open"
)

type serveCmd struct {
	Backend string `enum:"auto,gpu,cpu,${heuristics}" default:"auto" help:"The evaluator, as for evald eval (${enum})."`
	gpus
	Model []string `placeholder:"NAME|PATH" help:"A network to serve: a name of evald model list, NAME@VERSION, or a safetensors file. Several may be given; the model search searches with the first."`
	Rules string   `aliases:"board" default:"7x6x4" help:"The board of positions whose request names no other."`

	HTTP    string `name:"http" default:"127.0.0.1:8000" placeholder:"HOST:PORT" help:"Listen address for REST and the page; empty: none. :8000 is every address of this machine. (${default})"`
	GRPC    string `name:"grpc" default:"127.0.0.1:8001" placeholder:"HOST:PORT" help:"Listen address for gRPC. (${default})"`
	Metrics string `default:"127.0.0.1:8002" placeholder:"HOST:PORT" help:"Listen address for /metrics, which Prometheus reads. (${default})"`
	Pprof   string `placeholder:"HOST:PORT" help:"Listen address for pprof; loopback only, such as 127.0.0.1:6060."`

	MaxBatch int           `range:"1 to 1048576" default:"256" help:"Maximum number of rows of the batches that requests are merged into."`
	MaxDelay time.Duration `range:"0s to 1m" default:"1ms" help:"How long a request waits for others while the evaluator is busy."`
	MaxQueue int           `range:"1 to 1073741824" default:"131072" help:"Maximum number of rows that wait, see kserve/README.md; further requests are refused."`
	Cache    int           `range:"0 to 1073741824" default:"0" help:"Number of network answers to cache; 0 is none."`

	Visits     int           `range:"1 to 67108864" default:"800" help:"Visits of a search whose request names no number."`
	MaxVisits  int           `range:"1 to 67108864" default:"100000" help:"Maximum number of visits that a request may ask for."`
	Memory     memory        `placeholder:"SIZE" help:"Memory of the program, such as 512MiB. Half of it is for models and for requests with their bodies, searches and answers, a quarter for the page's searches; what does not fit is refused. Default: three quarters of the container's memory, or half of the machine's."`
	Body       int           `range:"1024 to 1073741824" default:"8388608" help:"Maximum number of bytes of a request."`
	Rows       int           `range:"1 to 1048576" default:"4096" help:"Maximum number of positions of a request."`
	Requests   int           `range:"1 to 1048576" default:"4096" help:"Maximum number of concurrent requests."`
	Streams    int           `range:"1 to 1048576" default:"1024" help:"Maximum number of concurrent requests of one gRPC connection."`
	Timeout    time.Duration `range:"1ms to 24h" default:"30s" help:"Time limit of a request; a request may set a shorter one."`
	DrainDelay time.Duration `range:"0s to 24h" default:"0s" help:"After an interrupt: how long the service still accepts requests, while it already reports that it is not ready."`
	DrainTime  time.Duration `range:"0s to 24h" default:"30s" help:"How long the requests under way may take after that."`

	exactBook
	Runs       string        `type:"path" placeholder:"DIR" help:"Training runs whose curves the page draws: one of evald train, or a folder of them."`
	Repository bool          `help:"Let clients load and unload models by name, see RepositoryModelLoad."`
	Watch      time.Duration `range:"0s to 8760h" default:"0s" help:"How often to check whether a model's file has changed, and reload it; 0 is never. SIGHUP reloads all models at once."`

	TLSCert     string   `name:"tls-cert" type:"path" placeholder:"FILE" help:"Certificate (PEM) of the HTTP and gRPC ports; with --tls-key."`
	TLSKey      string   `needs:"tls-cert" name:"tls-key" type:"path" placeholder:"FILE" help:"Its key (PEM)."`
	TLSClientCA string   `needs:"tls-cert" name:"tls-client-ca" type:"path" placeholder:"FILE" help:"Certificates (PEM) of the authorities for clients' certificates; clients must then present one."`
	AllowOrigin []string `placeholder:"ORIGIN" help:"An origin, https://HOST or https://HOST:PORT, whose pages may call /v2 in people's browsers; several may be given. Other sites' pages may not."`
	Host        []string `placeholder:"NAME" help:"A host name by which browsers may call the service, besides addresses and the names of its machine; several may be given."`
	Tokens      string   `type:"path" placeholder:"FILE" help:"Access rules, one a line: groups of calls (health, metadata, inference, repository, page, or all) and the token that opens them; - opens them to every client. Clients send it as a bearer token; a browser asks for it, as the password of any user."`

	Log      string `enum:"text,json" default:"text" help:"Form of the log, which is all that is written to standard error: ${enum}. On a terminal text begins with a line that says where the service is, in place of its configuration."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"What to log: ${enum}. info includes refused requests, with the client and the reason; debug has every request."`
}

// Validate compares flags with each other before anything is loaded.
func (c *serveCmd) Validate() error {
	if least := max(leastMemory, memory(2*service.LeastMemory(c.Body))); c.Memory != 0 && c.Memory < least {
		return usage("--memory %v: must be at least %v with --body %d", c.Memory, least, c.Body)
	}
	if most := machineMemory(); most > 0 && uint64(c.Memory) > most {
		return usage("--memory %v: must be at most %v, which is what this machine has", c.Memory, memory(most))
	}
	if c.TLSCert != "" && c.TLSKey == "" {
		return usage("--tls-cert needs --tls-key, the key of that certificate (PEM)")
	}
	if c.TLSKey != "" && c.TLSCert == "" { // also of the environment and the configuration file
		return usage("--tls-key does nothing without --tls-cert, the certificate of that key (PEM)")
	}
	if c.Visits > c.MaxVisits {
		return fmt.Errorf("--visits %d: must be at most --max-visits %d", c.Visits, c.MaxVisits)
	}
	return fitsMemory("cache", c.Cache, eval.CacheEntry)
}

// Run serves until it is interrupted, and then answers the requests that it has taken. It writes to the log only, and to a
// terminal a line that says where it is.
func (c *serveCmd) Run(ctx context.Context, s streams) error {
	log, started := c.logger(s.err)
	logLibraries(log)
	err := c.serve(ctx, log, started)
	if wasInterrupted(ctx, err) {
		log.Info("interrupted")
		return errInterrupted
	}
	if err != nil {
		log.Error("the service ends", "error", short.To(err.Error(), mostSaid))
		return errors.Join(errLogged, err)
	}
	return nil
}

func (c *serveCmd) serve(ctx context.Context, log *slog.Logger, started func(line string)) error {
	debug.SetMemoryLimit(int64(cmp.Or(c.Memory, ownMemory())))
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	config, models, err := c.config(log, end)
	if err != nil {
		return err
	}
	traces, err := service.Traces(ctx, config.Version)
	if err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	if traces != nil {
		config.Traces = traces
		defer func() {
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			if err := traces.Shutdown(last); err != nil {
				log.Warn("the last traces were not sent", "error", err)
			}
		}()
	}
	server, err := service.New(config)
	if err != nil {
		return err
	}
	var l service.Listeners
	if err = c.addPage(server, config.Models); err == nil {
		l, err = c.listen()
	}
	if err != nil {
		server.Close()
		return err
	}
	log.Info("configuration", c.effective(l)...)
	started(c.opening(l, models))

	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer func() {
		signal.Stop(hangup)
		close(hangup)
	}()
	go func() {
		for range hangup {
			server.Reload()
		}
	}()
	err = server.Serve(ctx, l)
	if lost := (lostGPUsError{}); errors.As(context.Cause(ctx), &lost) {
		return errors.Join(lost, err)
	}
	return err
}

// lostGPUsError ends the service, because no evaluator is left.
type lostGPUsError struct{ error }

// addPage gives the server the page for people. Its agents may use the models that are served from the start.
func (c *serveCmd) addPage(server *service.Server, names []string) error {
	e, err := server.Evaluator(names[0])
	if err != nil {
		return err
	}
	networks := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := heuristic.Named(name); return ok })
	models := func(name string) (*eval.Evaluator, error) { return server.Evaluator(cmp.Or(name, names[0])) }
	books, err := c.books()
	if err != nil {
		return fmt.Errorf("--book: %w", err)
	}
	page, err := web.New(web.Config{
		Evaluator: e, Model: names[0], Networks: networks, Metrics: server.Metrics(), Runs: c.Runs, Limits: web.Limits{Memory: int64(c.Memory) / 4},
		Agents: agent.Shared{Models: models, Solved: &agent.Solved{}, Ships: books},
	})
	if err != nil {
		return err
	}
	server.SetPage(page, page.Close)
	return nil
}

// effective is the configuration in force, without secrets.
func (c *serveCmd) effective(l service.Listeners) []any {
	address := func(l net.Listener) string {
		if l == nil {
			return ""
		}
		return l.Addr().String()
	}
	return []any{
		"version", version(), "pid", os.Getpid(), "cores", runtime.GOMAXPROCS(0),
		"http", address(l.HTTP), "grpc", address(l.GRPC), "metrics", address(l.Metrics), "pprof", address(l.Profile),
		"backend", c.Backend, "gpus", c.GPUs, "models", c.Model, "rules", c.Rules, "book", c.Book, "runs", c.Runs, "repository", c.Repository, "watch", c.Watch,
		"max_batch", c.MaxBatch, "max_delay", c.MaxDelay, "max_queue", c.MaxQueue, "cache", c.Cache,
		"visits", c.Visits, "max_visits", c.MaxVisits,
		"body", c.Body, "rows", c.Rows, "requests", c.Requests, "streams", c.Streams, "timeout", c.Timeout,
		"memory", c.Memory.String(), "drain_delay", c.DrainDelay, "drain_time", c.DrainTime,
		"tls", c.TLSCert != "", "client_certificates", c.TLSClientCA != "", "tokens", c.Tokens != "",
		"allow_origin", c.AllowOrigin, "host", c.Host,
	}
}

// config is what the flags say; models names in words what evaluates. end ends the service with an error.
func (c *serveCmd) config(log *slog.Logger, end func(error)) (config service.Config, models string, err error) {
	rules, err := game.ParseRules(c.Rules)
	if err != nil {
		return config, "", usage("--rules: %w", err)
	}
	served, err := c.served(linesToLog(log), func(err error) {
		end(lostGPUsError{fmt.Errorf("--backend gpu: %w; --backend auto continues on the CPU", err)})
	})
	if err != nil {
		return config, "", err
	}
	if err := c.fitMemory(served); err != nil {
		return config, "", err
	}
	limits := service.DefaultLimits
	limits.Body, limits.Batch, limits.Requests, limits.Streams, limits.Timeout = c.Body, c.Rows, c.Requests, c.Streams, c.Timeout
	limits.Memory = int64(c.Memory) / 2
	config = service.Config{
		Version: version(), Rules: rules,
		Models: served.names, Load: served.load, Bytes: served.bytes, Available: loadable, Changed: served.changed, Watch: c.Watch, Repository: c.Repository,
		Batching: service.Batching{MaxRows: c.MaxBatch, MaxDelay: c.MaxDelay, MaxQueued: c.MaxQueue},
		Search:   service.Search{Visits: c.Visits, MaxVisits: c.MaxVisits},
		Cache:    c.Cache, Limits: limits, Log: log, DrainDelay: c.DrainDelay, DrainTime: c.DrainTime,
	}
	if c.TLSCert != "" || c.TLSKey != "" || c.TLSClientCA != "" {
		if config.TLS, err = service.LoadTLS(c.TLSCert, c.TLSKey, c.TLSClientCA); err != nil {
			return config, "", fmt.Errorf("--tls-cert: %w", err)
		}
	}
	if config.Origins, err = origin.New(c.AllowOrigin, c.Host); err != nil {
		return config, "", usage("--allow-origin, --host: %w", err)
	}
	if c.Tokens != "" {
		text, err := short.ReadFile(c.Tokens)
		if err != nil {
			return config, "", fmt.Errorf("--tokens: %w", err)
		}
		if config.Tokens, err = service.ReadTokens(bytes.NewReader(text)); err != nil {
			return config, "", fmt.Errorf("--tokens %s: %w", c.Tokens, err)
		}
		if info, err := os.Stat(c.Tokens); err == nil && info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows" {
			log.Warn(fmt.Sprintf("--tokens %s: EVERYBODY on this machine can read the tokens: chmod 600 %[1]s", c.Tokens))
		}
	}
	return config, served.words, nil
}

// fitMemory sets the memory, or checks that the models fit into what was given.
func (c *serveCmd) fitMemory(served *served) error {
	sum, keep := int64(0), service.LeastMemory(c.Body) // for requests, and while a model is being read
	for _, name := range served.names {
		n, err := served.bytes(name)
		if err != nil {
			return err
		}
		sum, keep = sum+n, max(keep, n)
	}
	least := max(leastMemory, memory(2*(sum+keep)))
	if c.Memory != 0 && c.Memory < least {
		return usage("--memory %v: must be at least %v with the models %s, which take %v of it, and --body %d", c.Memory, least, strings.Join(served.names, ", "), memory(sum), c.Body)
	}
	if c.Memory == 0 {
		c.Memory = max(ownMemory(), least)
	}
	debug.SetMemoryLimit(int64(c.Memory))
	return nil
}

func (c *serveCmd) listen() (l service.Listeners, err error) {
	if c.Pprof != "" {
		host, _, err := net.SplitHostPort(c.Pprof)
		if err != nil || !loopback(host) {
			return l, usage("--pprof %s: must be an address of this machine's own, such as 127.0.0.1:6060", c.Pprof)
		}
	}
	for _, port := range []struct {
		flag, address string
		to            *net.Listener
	}{{"http", c.HTTP, &l.HTTP}, {"grpc", c.GRPC, &l.GRPC}, {"metrics", c.Metrics, &l.Metrics}, {"pprof", c.Pprof, &l.Profile}} {
		if port.address == "" {
			continue
		}
		opened, err := net.Listen("tcp", port.address)
		if err != nil {
			for _, other := range []net.Listener{l.HTTP, l.GRPC, l.Metrics} {
				if other != nil {
					other.Close()
				}
			}
			return service.Listeners{}, fmt.Errorf("--%s %s: %w", port.flag, port.address, err)
		}
		*port.to = opened
	}
	return l, nil
}

// served are the models of the command line, and where each is found.
type served struct {
	names   []string
	words   string            // what evaluates, for people
	backend backend           // of the command line, without a model
	refs    map[string]string // name -> as the command line gives it; "" for a heuristic
	events  open.Options      // called when a GPU fails or returns
}

// served opens and closes each model of the command line, to see that it works. What there is to say of it goes to note. lost
// is GPULost of open.Options.
func (c *serveCmd) served(note func(string), lost func(error)) (*served, error) {
	s := &served{backend: backend{Backend: c.Backend, gpus: c.gpus}, refs: map[string]string{}, events: open.Options{Event: note, GPULost: lost}}
	refs := c.Model
	if len(refs) == 0 {
		refs = []string{""}
	}
	for _, ref := range refs {
		from := s.backend
		from.Model = ref
		e, err := from.open(open.Options{Note: note, Event: note})
		if err != nil {
			return nil, err
		}
		if err := e.Close(); err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(e.Model, "@")
		if _, twice := s.refs[name]; twice {
			return nil, usage("--model: two models are called %s", name)
		}
		s.names = append(s.names, name)
		s.refs[name] = ref
		if s.words = strings.Join(s.names, ", "); e.OnGPU {
			s.words += " on the GPU"
		} else if c.Backend == open.Auto && e.Network && !isRemote(ref) {
			s.words += " on the CPU, no GPU"
		}
	}
	return s, nil
}

// load opens a model of the command line, or one that a client asks for, by its name and never by a path.
func (s *served) load(name string) (service.Loaded, error) {
	from := s.backend
	from.Model = name
	ref, given := s.refs[name]
	if _, isHeuristic := heuristic.Named(name); given {
		from.Model = ref
	} else if isHeuristic {
		from = backend{Backend: name}
	} else if _, ok, err := open.Find(name); err != nil || !ok {
		return service.Loaded{}, cmp.Or(err, errNoModel)
	}
	if _, ok := heuristic.Named(from.Backend); ok && !given && from.Model != "" {
		from.Backend = "auto"
	}
	e, err := from.open(s.events) // what there is to note was noted at the start
	if err != nil {
		return service.Loaded{}, err
	}
	l := service.Loaded{Backend: e.Backend(), Close: e.Close, Version: "1", Platform: service.HeuristicPlatform, Describe: e.How, InFlight: max(2, runtime.GOMAXPROCS(0))}
	if _, version, ok := strings.Cut(e.Model, "@"); ok {
		l.Version = version
	}
	if e.Network {
		l.Platform, l.InFlight = service.NetworkPlatform, 2 // it uses all cores for one
	}
	if e.OnGPU {
		l.Devices = func() (all []service.Device) {
			for _, d := range e.Devices() {
				all = append(all, service.Device{Index: d.Index, Working: d.Working, Lost: d.Lost, Rows: d.Rows, Launches: d.Launches, Faults: d.Faults, Busy: d.Busy})
			}
			return all
		}
		l.InFlight = 4 // the GPU computes two or three of them, and others are read meanwhile
	}
	return l, nil
}

// bytes is how much memory a model takes. A name that the command line does not give is never a path.
func (s *served) bytes(name string) (int64, error) {
	ref, given := s.refs[name]
	if _, isHeuristic := heuristic.Named(name); isHeuristic && ref == "" || isRemote(ref) {
		return 0, nil
	}
	ref = cmp.Or(ref, name)
	m, ok, err := open.Lookup(ref)
	switch {
	case ok && m.Config == "", !ok && given: // a file
		m, _, err = open.Any(ref)
	case !ok:
		err = cmp.Or(err, errNoModel)
	}
	if err != nil {
		return 0, err
	}
	return open.Bytes(m.Config)
}

var errNoModel = errors.New("there is no model of that name")

// changed is another value after a model's file has changed.
func (s *served) changed(name string) (any, error) {
	ref := s.refs[name]
	given := ref != ""
	ref = cmp.Or(ref, name)
	_, isHeuristic := heuristic.Named(name)
	if _, ships := models.Find(ref); isHeuristic || ships {
		return nil, nil
	}
	if store, err := models.UserStore(); err == nil {
		if e, ok, err := store.Find(ref); err == nil && ok {
			return e.Ref(), nil
		}
	}
	if !given { // it is a client's word, and never a path
		return nil, errNoModel
	}
	info, err := os.Stat(ref)
	if err != nil {
		return nil, err
	}
	type state struct {
		at   time.Time
		size int64
	}
	return state{info.ModTime(), info.Size()}, nil
}

// loadable are the names of the models that clients may load: shipped networks, the user's own, and heuristics.
func loadable() []string {
	names := models.Names()
	if store, err := models.UserStore(); err == nil {
		entries, _ := store.List()
		for _, e := range entries {
			names = append(names, e.Name)
		}
	}
	return append(names, heuristic.Names()...)
}
