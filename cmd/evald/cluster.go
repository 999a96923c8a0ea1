//go:build !first

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/evald/evald/cmd/evald/internal/play"
	"github.com/evald/evald/cmd/evald/internal/web"
	"github.com/evald/evald/cmd/evald/service/origin"
	"github.com/evald/evald/engine/cluster"
	"github.com/evald/evald/engine/durable"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/selfplay"
	"github.com/evald/evald/engine/short"
	"github.com/evald/evald/nn/learn"
)

type clusterCmd struct {
	Status clusterStatusCmd `cmd:"" help:"Show the state of a learner (evald learn --cluster) and its workers."`
}

// natsFlags are the credentials with which a learner, a worker or evald cluster status connects to a NATS server.
type natsFlags struct {
	NATSCreds string `name:"nats-creds" type:"path" placeholder:"FILE" help:"Credentials of a NATS account, if the server requires them."`
	TLSCA     string `name:"tls-ca" type:"path" placeholder:"FILE" help:"Certificates (PEM) of the authorities for the NATS server's certificate. Default: the system's."`
}

func (f natsFlags) to(url string) cluster.Connection {
	return cluster.Connection{URL: url, Credentials: f.NATSCreds, CA: f.TLSCA}
}

// clusterFlags are the flags of evald learn that let workers on other machines play the games.
type clusterFlags struct {
	Cluster    bool   `help:"Let workers play the games: evald selfplay --join, on any machine. The URL for them is written to cluster/join in the run's folder."`
	Continuous bool   `needs:"cluster" help:"Let workers play with the newest network while the learner trains and measures. The games then depend on timing, so the run cannot be repeated. A generation has at least --games games; the heuristic plays the first two generations."`
	Listen     string `needs:"cluster" default:"127.0.0.1:4222" placeholder:"HOST:PORT" help:"Listen address of the built-in NATS server; :4222 is every address of this machine. (${default})"`
	NATS       string `name:"nats" needs:"cluster" without:"listen" placeholder:"URL" help:"Use this NATS server instead of the built-in one."`
	natsFlags
	WorkerPassword string `needs:"cluster" without:"nats" placeholder:"PASSWORD" help:"Password of the workers. Prefer EVALD_WORKER_PASSWORD, which other users of this machine cannot see. Default: a random one, the same for all new runs of this user, so that workers can wait for the next run; it is kept in evald/cluster/password in the user's cache, and in the run's folder."`
	TLSCert        string `name:"tls-cert" needs:"cluster" without:"nats" type:"path" placeholder:"FILE" help:"Certificate (PEM) of the built-in NATS server; with --tls-key."`
	TLSKey         string `name:"tls-key" needs:"tls-cert" type:"path" placeholder:"FILE" help:"Its key (PEM)."`
	Metrics        string `needs:"cluster" placeholder:"HOST:PORT" help:"Listen address of a page about the workers, of /metrics for Prometheus, and of /healthz for probes."`
}

// open starts the cluster's learner for the run in dir, and returns the function that plays the run's games on workers. The caller must
// call done.
func (c clusterFlags) open(ctx context.Context, dir string, notes io.Writer) (play learn.Player, done func(), err error) {
	o := cluster.Options{
		Version: cluster.Protocol, Program: version(), Dir: filepath.Join(dir, "cluster"), Log: logTo(notes),
		Server: cluster.Server{Listen: c.Listen, Certificate: c.TLSCert, Key: c.TLSKey, Password: c.WorkerPassword},
	}
	if cache, err := durable.CacheDir(); err == nil && cache != os.DevNull {
		o.Shared = filepath.Join(cache, "cluster", "password")
	}
	if c.NATS != "" {
		outside := c.to(c.NATS)
		o.Outside = &outside
	} else if (c.TLSCert == "") != (c.TLSKey == "") {
		return nil, nil, usage("--tls-cert and --tls-key need each other")
	}
	l, err := cluster.Open(ctx, o)
	if err != nil {
		return nil, nil, fmt.Errorf("--cluster: %w", err)
	}
	stop, err := c.serveMetrics(l)
	if err == nil && c.NATS == "" {
		path := filepath.Join(o.Dir, "join") // the URL has the workers' password, which the owner of the file alone may read
		if err = os.WriteFile(path, []byte(l.Join()+"\n"), 0o600); err == nil {
			fmt.Fprintf(notes, "evald learn: workers join by the URL in %s: evald selfplay --join URL\n", path)
		}
	}
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	if host, _, err := net.SplitHostPort(c.Listen); c.NATS == "" && c.TLSCert == "" && err == nil && !loopback(host) {
		fmt.Fprintf(notes, "evald: the connections of workers, with their password, are not encrypted: --tls-cert and --tls-key encrypt them\n")
	}
	return l.Play, func() { stop(); l.Close() }, nil
}

// serveMetrics serves /metrics and a page about the cluster until stop is called. It does nothing without --metrics.
func (c clusterFlags) serveMetrics(l *cluster.Learner) (stop func(), err error) {
	if c.Metrics == "" {
		return func() {}, nil
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(l)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) { _ = l.Status() }) // answers while the learner does
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	page, err := web.Cluster(l.Status)
	if err != nil {
		return nil, err
	}
	mux.Handle("/", page)
	listener, err := net.Listen("tcp", c.Metrics)
	if err != nil {
		return nil, fmt.Errorf("--metrics %s: %w", c.Metrics, err)
	}
	var guard *origin.Policy // no exceptions
	s := &http.Server{Handler: guard.Guard(mux), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(listener) }() // until stop
	return func() { _ = s.Close() }, nil
}

func logTo(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// joinFlags are the flags that make evald selfplay a worker of a learner.
type joinFlags struct {
	Join string `placeholder:"URL" help:"Play games for the learner at this NATS server. The URL is in cluster/join in the folder of the learner (evald learn --cluster). It contains a password; EVALD_JOIN hides it from other users of this machine. The learner decides what is played and stores the games."`
	natsFlags
	Spool string `needs:"join" type:"path" placeholder:"DIR" help:"Folder of a worker for networks, and for games that the learner has not acknowledged. The workers of a machine can share it. (evald/cluster in the user's cache)"`
}

// work plays for a learner until the command is interrupted.
func (c *selfplayCmd) work(ctx context.Context, s streams) error {
	if heuristic.Is(c.Backend) {
		return usage("--backend %s does nothing with --join: the learner chooses the network; auto, gpu or cpu choose the processor", c.Backend)
	}
	if c.Spool == "" {
		cache, err := durable.CacheDir()
		if err != nil { // the user has no home folder
			cache = filepath.Join(os.TempDir(), "evald")
		}
		c.Spool = filepath.Join(cache, "cluster")
	}
	if err := c.check(); err != nil {
		return err
	}
	by := play.Once(func(path string) (learn.Evaluators, error) {
		on := c.processors
		if on.CPUPath == "" && path != "" {
			if on.CPUPath = path; on.check() != nil {
				on.CPUPath = ""
				linesTo(s.err)("this machine lacks the run's CPU path " + short.Quote(path) + ", so its games will differ from those that the learner's machine would play")
			}
		}
		return evaluators(c.Backend, on, s.err), nil
	})
	err := cluster.Work(ctx, cluster.WorkerOptions{
		Connection: c.to(c.Join), Version: cluster.Protocol, Dir: c.Spool, Parallel: cmp.Or(c.AtOnce, 2*selfplay.DefaultBatch*runtime.GOMAXPROCS(0)), Batch: cmp.Or(c.Batch, selfplay.DefaultBatch), Log: logTo(s.err),
		Evaluator: func(file, name, path string) (*eval.Evaluator, func(), error) {
			if h, ok, err := heuristic.Parse(name); ok && file == "" {
				if err != nil {
					return nil, nil, err
				}
				return eval.New(h.New(), eval.Options{}), func() {}, nil
			}
			load, err := by(path)
			if err != nil {
				return nil, nil, err
			}
			return load(file, name)
		},
	})
	if wasInterrupted(ctx, err) {
		return ctx.Err()
	}
	return err
}

type clusterStatusCmd struct {
	URL string `arg:"" help:"The NATS server, as for evald selfplay --join."`
	natsFlags
	JSON bool `help:"Write JSON."`
}

func (c *clusterStatusCmd) Run(ctx context.Context, s streams) error {
	status, err := cluster.Ask(ctx, c.to(c.URL))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.out, status)
	}
	doing := fmt.Sprintf("%d of %d games by %s, %.1f/s, %d jobs wait", status.Games, status.All, status.Network, status.PerSecond, status.Jobs)
	if !status.Playing {
		doing = "trains and measures; workers wait"
	}
	fmt.Fprintf(s.out, "generation %d: %s\nstored %d games, %d duplicates, %d refused messages, %d failed writes, %d waiting messages\n",
		status.Generation, doing, status.Kept, status.Duplicates, status.Refused, status.Failures, status.Lag)
	fmt.Fprintf(s.out, "%d workers play %.1f games/s and hold %d unacknowledged games; %d games are of earlier generations\n",
		status.Heard, status.Played, status.Spool, status.Older)
	for _, n := range status.Networks {
		fmt.Fprintf(s.out, "network %s of generation %d: %d workers play %d games, %d download it\n", n.Network, n.Generation, n.Playing, n.Begun, n.Fetching)
	}
	for _, w := range status.Workers {
		with := cmp.Or(w.Network, "no network")
		if w.Fetching != "" {
			with += ", downloads " + w.Fetching
		}
		fmt.Fprintf(s.out, "%-24s generation %d by %s, %d games in progress, %.1f games/s, %d played, %d stored, %d in its spool, reported %.0f s ago\n",
			w.Name, w.Generation, with, w.Begun, w.PerSecond, w.Games, w.Kept, w.Spool, w.Silent)
	}
	if left := status.Heard - len(status.Workers); left > 0 {
		fmt.Fprintf(s.out, "and %d other workers\n", left)
	}
	return nil
}
