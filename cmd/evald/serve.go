//go:build !first

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/evald/evald/cmd/evald/internal/answer"
	"github.com/evald/evald/cmd/evald/internal/web"
	"github.com/evald/evald/cmd/evald/service"
	"github.com/evald/evald/cmd/evald/service/origin"
	"github.com/evald/evald/engine/agent"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/open"
)

// served has the flags that choose the models of a service.
type served struct {
	Backend string `enum:"${backends},${heuristics}" default:"auto" help:"The evaluator, as for evald eval (${enum})."`
	processors
	Model  []string `without:"models" placeholder:"NAME|PATH|NAME=PATH" help:"A model to serve, by its name or file as for evald eval, or solver; NAME=PATH gives it another name, and PATH may be a folder with one network. Several may be given, also versions of one; the model search searches with the first."`
	Models string   `type:"path" env:"EVALD_MODELS_FILE" placeholder:"FILE" help:"The models to serve, with settings for each (YAML), see kserve/README.md. Flags override them. Its variable is EVALD_MODELS_FILE."`
}

// callers has the flags that say who may call a service.
type callers struct {
	TLSCert     string   `name:"tls-cert" type:"path" placeholder:"FILE" help:"Certificate (PEM) of the HTTP and gRPC ports; with --tls-key."`
	TLSKey      string   `needs:"tls-cert" name:"tls-key" type:"path" placeholder:"FILE" help:"Its key (PEM)."`
	TLSClientCA string   `needs:"tls-cert" name:"tls-client-ca" type:"path" placeholder:"FILE" help:"Certificates (PEM) of the authorities for clients' certificates; clients must then present one."`
	Host        []string `placeholder:"NAME" help:"A host name by which browsers may call the service, besides addresses and the names of its machine; several may be given."`
	Tokens      string   `type:"path" placeholder:"FILE" help:"Access rules, one a line: groups of calls (health, metadata, inference, repository, page, or all) and the token that opens them, then its name=NAME in the log and the metrics if need be; - opens them to every client. Clients send it as a bearer token; a browser asks for it, as the password of any user."`
}

type serveCmd struct {
	served
	Check bool   `help:"Check the flags, the file of --models and the models, print the configuration in force, and exit."`
	Rules string `aliases:"board" default:"7x6x4" help:"The board of positions whose request names no other."`

	HTTP    string `name:"http" default:"127.0.0.1:8000" placeholder:"HOST:PORT" help:"Listen address for REST and the page; empty: none. :8000 is every address of this machine. (${default})"`
	GRPC    string `name:"grpc" default:"127.0.0.1:8001" placeholder:"HOST:PORT" help:"Listen address for gRPC. (${default})"`
	Metrics string `default:"127.0.0.1:8002" placeholder:"HOST:PORT" help:"Listen address for /metrics, which Prometheus reads. (${default})"`
	Pprof   string `placeholder:"HOST:PORT" help:"Listen address for pprof; loopback only, such as 127.0.0.1:6060."`

	modelSettings

	Memory      memory        `placeholder:"SIZE" help:"Memory of the program, such as 512MiB. Half of it is for models and for requests with their bodies, searches and answers, a quarter for the page's searches; what does not fit is refused. Default: three quarters of the container's memory, or half of the machine's."`
	Body        int           `range:"1024 to 1073741824" default:"8388608" help:"Maximum number of bytes of a request."`
	Rows        int           `range:"1 to 1048576" default:"4096" help:"Maximum number of positions of a request."`
	Requests    int           `range:"1 to 1048576" default:"4096" help:"Maximum number of concurrent requests."`
	Streams     int           `range:"1 to 1048576" default:"1024" help:"Maximum number of concurrent requests of one gRPC connection."`
	Connections int           `range:"1 to 1048576" default:"1024" help:"Maximum number of connections of a port. A new one beyond it takes the place of an idle one, or its requests are refused (503)."`
	Address     int           `name:"address-connections" range:"0 to 1048576" default:"0" help:"Maximum number of connections of one address, which may be a proxy's; 0 is half of --connections, of clients that were not answered yet a quarter."`
	IdleTimeout time.Duration `range:"1s to 24h" default:"5m" help:"How long a connection without requests stays open. It should be longer than a load balancer in front of the service keeps its connections."`
	Age         time.Duration `name:"connection-age" range:"0s to 8760h" default:"10m" help:"How long a connection is used. Then its client is asked to make another one, so that a load balancer can choose a new server; requests under way are answered. 0 is for ever."`
	HeaderTime  time.Duration `name:"header-timeout" range:"1s to 1h" default:"10s" help:"How long the headers of a request may take to arrive, with the handshake of TLS."`
	DrainDelay  time.Duration `range:"0s to 24h" default:"0s" help:"After an interrupt: how long the service still accepts requests, while it already reports that it is not ready."`
	DrainTime   time.Duration `range:"0s to 24h" default:"30s" help:"How long the requests under way may take after that."`

	exactBook
	Runs       string        `type:"path" placeholder:"DIR" help:"Training runs whose curves the page draws: one of evald train, or a folder of them."`
	Games      []string      `type:"path" placeholder:"FILE" help:"Records of matches or of self-play (Parquet): the page's explorer shows how often each move was played in them. Several may be given."`
	Repository bool          `help:"Let clients load and unload models by name, see RepositoryModelLoad."`
	Watch      time.Duration `range:"0s to 8760h" default:"0s" help:"How often to check whether a file of a model, a certificate, a key, client authorities or tokens has changed, and reload it; 0 is never. SIGHUP reloads all of them at once."`

	callers
	AllowOrigin   []string `placeholder:"ORIGIN" help:"An origin, https://HOST or https://HOST:PORT, whose pages may call /v2 in people's browsers; several may be given. Other sites' pages may not."`
	TrustedProxy  []string `placeholder:"ADDRESS|NETWORK" help:"A proxy, 10.1.2.3, or a network of proxies, 10.0.0.0/8, whose header X-Forwarded-For names the client for limits, fairness and the log; several may be given. The limit of --address-connections is not for their connections."`
	ProxyProtocol bool     `needs:"trusted-proxy" help:"The connections of trusted proxies begin with a header of the PROXY protocol (version 1 or 2), which names the client."`

	Log      string `enum:"text,json" default:"text" help:"Form of the log, which is all that is written to standard error: ${enum}. On a terminal text begins with a line that says where the service is, in place of its configuration."`
	LogLevel string `enum:"debug,info,warn,error" default:"info" help:"What to log: ${enum}. info includes refused requests, with the client and the reason; debug has every request."`

	startFiles startFiles

	inPlace func(*answer.Answerer) (http.Handler, error) // returns what is served in place of the page; nil: the page
}

// Validate checks that the flags fit together before anything is loaded.
func (c *serveCmd) Validate() error {
	if least := max(leastMemory, memory(2*service.LeastMemory(c.Body))); c.Memory != 0 && c.Memory < least {
		return usage("--memory %v: must be at least %v with --body %d", c.Memory, least, c.Body)
	}
	if most := machineMemory(); most > 0 && uint64(c.Memory) > most {
		return usage("--memory %v: must be at most %v, the memory of this machine", c.Memory, memory(most))
	}
	if c.TLSCert != "" && c.TLSKey == "" {
		return usage("--tls-cert needs --tls-key, the key of that certificate (PEM)")
	}
	if c.TLSKey != "" && c.TLSCert == "" { // checkDependencies does not see the environment and the configuration file
		return usage("--tls-key does nothing without --tls-cert, the certificate of that key (PEM)")
	}
	if n := len(c.MaxWait); n != 0 && n != 3 {
		return usage("--max-wait: %d times, must be 3: of priority 1, 2 and 3", n)
	}
	settings := service.DefaultSettings
	c.onto(&settings)
	if settings.Visits > settings.MaxVisits && c.Models == "" {
		return fmt.Errorf("--visits %d: must be at most --max-visits %d", settings.Visits, settings.MaxVisits)
	}
	return fitsMemory("cache", settings.Cache, eval.CacheEntry)
}

// Run serves until it is interrupted, and then answers the accepted requests. It writes the log and, on a terminal, a line with the
// addresses.
func (c *serveCmd) Run(ctx context.Context, s streams) error {
	broken := make(chan os.Signal, 1) // or the first line for a pipe that its reader has closed would end the program
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	log := c.logger(s.err)
	defer log.close()
	logLibraries(log.Logger)
	err := c.serve(ctx, s.out, log)
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

func (c *serveCmd) serve(ctx context.Context, out io.Writer, log serveLog) error {
	debug.SetMemoryLimit(int64(cmp.Or(c.Memory, ownMemory())))
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP) // before the models are loaded, or the signal would end the program meanwhile
	defer func() {
		signal.Stop(hangup)
		close(hangup)
	}()
	config, source, err := c.config(log.Logger, end)
	if err != nil {
		return err
	}
	config.LinesLost = log.lost
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
	if err = c.addPage(ctx, log.Logger, server, source, config.Models); err == nil && !c.Check {
		l, err = c.listen()
	}
	if err != nil {
		server.Close()
		return err
	}
	if c.Check {
		server.Close()
		return c.print(out, config.Models)
	}
	log.Info("configuration", c.effective(l)...)
	log.started(c.opening(l, source.words(config.Models)))

	go c.reload(hangup, server, log.Logger)
	err = server.Serve(ctx, l)
	if lost := (lostGPUsError{}); errors.As(context.Cause(ctx), &lost) {
		return errors.Join(lost, err)
	}
	return err
}

// reload reloads the server at each signal, until hangup is closed. At a signal, and as often as
// --watch says, it reports files that only a restart reads again.
func (c *serveCmd) reload(hangup <-chan os.Signal, server *service.Server, log *slog.Logger) {
	var look <-chan time.Time
	if c.Watch > 0 {
		tick := time.NewTicker(c.Watch)
		defer tick.Stop()
		look = tick.C
	}
	for {
		select {
		case _, ok := <-hangup:
			if !ok {
				return
			}
			c.startFiles.report(log)
			server.Reload()
		case <-look:
			c.startFiles.report(log)
		}
	}
}

// lostGPUsError ends the service, because no evaluator is left.
type lostGPUsError struct{ error }

// print writes the configuration in force: the flags as comments, then the models, as --models reads them.
func (c *serveCmd) print(out io.Writer, all []service.Model) error {
	text := []byte("# evald serve\n")
	flags := c.effective(service.Listeners{})
	for i := 0; i < len(flags); i += 2 {
		text = fmt.Appendf(text, "# %v: %v\n", flags[i], flags[i+1])
	}
	_, err := out.Write(appendModels(text, all))
	return err
}

// addPage adds the web page to the server. The page's agents may use the networks that are served from the start, and its levels also use
// networks that ship.
func (c *serveCmd) addPage(ctx context.Context, log *slog.Logger, server *service.Server, source *modelSource, all []service.Model) error {
	e, err := server.Evaluator("")
	if err != nil {
		return err
	}
	var networks []string
	for _, m := range all {
		if !heuristic.Is(m.Backend) && m.Backend != open.SolverModel && m.Name != open.ExactModel {
			networks = append(networks, m.Ref())
		}
	}
	own := shareAgents(c.processors, io.Discard) // shipped networks; notes to the user are dropped
	models := func(name string) (*eval.Evaluator, error) {
		if name == "" || slices.Contains(networks, name) {
			return server.Evaluator(name)
		}
		return own.Models(name)
	}
	first := all[0]
	modelOn := func(r game.Rules) string {
		if name := open.Shipped(r); name == open.AnyModel && first.File == "" && first.Name == open.DefaultModel {
			return name
		}
		return first.Ref()
	}
	var games *web.Games
	if len(c.Games) > 0 {
		if games, err = web.ReadGames(ctx, c.Games...); err != nil {
			return fmt.Errorf("--games: %w", err)
		}
		log.Info("read games for the explorer", "games", games.Summary())
	}
	page, err := web.New(web.Config{
		Evaluator: e, Games: games, Model: first.Ref(), ModelOn: modelOn, Networks: networks, Metrics: server.Metrics(), Runs: c.Runs, Places: server.Places(),
		Agents: agent.Shared{Models: models, Chosen: own.Chosen, Solved: &agent.Solved{}, Ships: source.books},
	})
	if err != nil {
		return err
	}
	var handler http.Handler = page
	if c.inPlace != nil {
		handler, err = c.inPlace(page.Answerer)
	}
	server.SetPage(handler, page.Close)
	return err
}

// effective returns the configuration in force, without secrets, as attributes of the log.
func (c *serveCmd) effective(l service.Listeners) []any {
	address := func(l net.Listener, flag string) string {
		if l == nil {
			return flag
		}
		return l.Addr().String()
	}
	return []any{
		"version", version(), "pid", os.Getpid(), "cores", runtime.GOMAXPROCS(0),
		"http", address(l.HTTP, c.HTTP), "grpc", address(l.GRPC, c.GRPC), "metrics", address(l.Metrics, c.Metrics), "pprof", address(l.Profile, c.Pprof),
		"backend", c.Backend, "gpus", c.GPUs, "cpu_path", c.CPUPath, "model", c.Model, "models", c.Models, "rules", c.Rules, "book", c.Book, "runs", c.Runs, "games", c.Games, "repository", c.Repository, "watch", c.Watch,
		"body", c.Body, "rows", c.Rows, "requests", c.Requests, "streams", c.Streams, "connections", c.Connections, "address_connections", c.Address,
		"memory", c.Memory.String(), "idle_timeout", c.IdleTimeout, "header_timeout", c.HeaderTime, "connection_age", c.Age, "drain_delay", c.DrainDelay, "drain_time", c.DrainTime,
		"tls", c.TLSCert != "", "client_certificates", c.TLSClientCA != "", "tokens", c.Tokens != "",
		"allow_origin", c.AllowOrigin, "host", c.Host, "trusted_proxy", c.TrustedProxy, "proxy_protocol", c.ProxyProtocol,
	}
}

// config returns the service's configuration according to the flags, and the source of its models. end ends the service with an error.
func (c *serveCmd) config(log *slog.Logger, end func(error)) (config service.Config, source *modelSource, err error) {
	rules, err := game.ParseRules(c.Rules)
	if err != nil {
		return config, nil, usage("--rules: %w", err)
	}
	source, err = c.modelSource(log, func(err error) {
		end(lostGPUsError{fmt.Errorf("--backend gpu: %w; --backend auto continues on the CPU", err)})
	})
	if err != nil {
		return config, nil, err
	}
	all, err := source.models()
	if err != nil {
		return config, nil, err
	}
	if err := c.fitMemory(source, all); err != nil {
		return config, nil, err
	}
	limits := service.DefaultLimits
	limits.Body, limits.Batch, limits.Requests, limits.Streams = c.Body, c.Rows, c.Requests, c.Streams
	limits.Connections, limits.Address, limits.Age = c.Connections, c.Address, c.Age
	limits.Idle, limits.Headers = c.IdleTimeout, c.HeaderTime
	limits.Memory, limits.Page, limits.Timeout = int64(c.Memory)/2, int64(c.Memory)/4, source.settings(modelSettings{}).Timeout
	for _, m := range all {
		limits.Timeout = max(limits.Timeout, m.Timeout)
	}
	config = service.Config{
		Version: version(), Rules: rules,
		Models: all, Load: source.load, Bytes: source.bytes, Available: open.Names, Changed: source.changed, Watch: c.Watch, Repository: c.Repository,
		Settings: source.settings(modelSettings{}), Limits: limits, Log: log, DrainDelay: c.DrainDelay, DrainTime: c.DrainTime,
	}
	if c.Models != "" {
		config.Reread = source.models
	}
	if c.TLSCert != "" || c.Tokens != "" {
		config.ReadAccess = c.accessReader(log)
	}
	if config.Origins, err = origin.New(c.AllowOrigin, c.Host); err != nil {
		return config, nil, usage("--allow-origin, --host: %w", err)
	}
	if config.Proxies, err = service.ParseProxies(c.TrustedProxy); err != nil {
		return config, nil, usage("--trusted-proxy: %w", err)
	}
	config.ProxyProtocol = c.ProxyProtocol
	return config, source, nil
}

// fitMemory sets c.Memory to its default, or checks that the models fit into the memory given.
func (c *serveCmd) fitMemory(source *modelSource, all []service.Model) error {
	sum, keep := int64(0), service.LeastMemory(c.Body) // for requests, and while a model is being read
	for _, m := range all {
		n, err := source.bytes(m)
		if err != nil {
			return err
		}
		if sum, keep = sum+n, max(keep, n); c.Models != "" { // a reload of that file holds all its models twice
			keep = max(keep, sum)
		}
	}
	least := max(leastMemory, memory(2*(sum+keep)))
	if c.Memory != 0 && c.Memory < least {
		return usage("--memory %v: must be at least %v with the models %s, which take %v of it, and --body %d", c.Memory, least, source.words(all), memory(sum), c.Body)
	}
	if c.Memory == 0 {
		c.Memory = max(ownMemory(), least)
	}
	debug.SetMemoryLimit(int64(c.Memory))
	return nil
}

// loopback reports whether a host is this machine alone.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
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
