package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/internal/places"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/queue"
)

// Server is the service. New loads its models, and Serve answers clients.
type Server struct {
	config        Config
	board         *game.Board
	boards        game.Boards
	memory        *budget
	reading       *slots // for gRPC messages
	readingHealth *slots
	calls         atomic.Int64 // gRPC calls in progress, without streams
	models        repository
	searched      *stats         // of the model "search"
	prover        *queue.Batcher // the queue of all exact steps
	forests       sync.Pool      // of *mcts.Forest, trees for the next search
	large         *places.Places // for large searches
	thoughts      *places.Places // for what the page computes

	loading    sync.Mutex // held while models are loaded; guards the next four fields
	number     uint64     // number of networks loaded so far
	configured []Model    // the current models of Config; written with models.mu locked, too
	tried      []Model    // last result of Config.Reread
	wrong      string     // last error of Config.Reread, "" after a success

	access         atomic.Pointer[Access] // in force
	accessFiles    accessReload           // guarded by loading
	accessFailures atomic.Uint64          // reloads of the access that failed

	longHeaders, closedHeaders atomic.Uint64 // calls that were refused, and connections that were closed, because of their headers

	generations sync.WaitGroup // counts the models that are not closed

	metrics  *prometheus.Registry
	methods  map[string]string      // of gRPC: the last part of each full name
	codes    *prometheus.CounterVec // gRPC calls by their code
	statuses *prometheus.CounterVec // requests of the HTTP port by their status
	refusals limiter
	clients  clients
	page     http.Handler // nil: no page
	endPage  func()

	health  *health.Server
	taking  context.Context // ends when draining begins, after which streams read no more requests
	endTake context.CancelFunc
	over    context.Context // ends after all requests are answered; this ends the streams of health and reflection
	end     context.CancelFunc

	mu        sync.Mutex
	ports     []*connections
	state     state
	requests  int // in progress
	answering sync.WaitGroup
}

// state is a phase of the server's life.
type state int

const (
	starting state = iota
	ready          // for requests
	notReady       // accepts requests, but reports that it is not ready
	draining       // accepts none, and answers those in progress
)

// New loads the models. Its error names the model that cannot be loaded, or the field of the Config that is out of range. The caller must
// call Serve or Close.
func New(c Config) (*Server, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("serve: %w", err)
	}
	board, err := game.NewBoard(c.Rules)
	if err != nil {
		return nil, fmt.Errorf("serve: board: %w", err)
	}
	s := &Server{
		config: c, board: board, health: health.NewServer(), memory: newBudget(c.Limits.Memory), endPage: func() {},
		methods: map[string]string{}, clients: clients{by: map[string]*clientCounts{}}, readingHealth: &slots{n: leastSlots}, large: places.New(runtime.GOMAXPROCS(0)), thoughts: places.ForPage(c.Limits.Page),
	}
	s.reading = &slots{n: max(leastSlots, int(c.Limits.Memory/4)/s.messageCost())}
	s.metrics = s.newMetrics()
	s.taking, s.endTake = context.WithCancel(context.Background())
	s.over, s.end = context.WithCancel(context.Background())
	s.models.failed, s.searched = map[string]string{}, new(stats)
	s.prover = s.newProver()
	s.tried = slices.Clone(c.Models)
	if c.ReadAccess != nil {
		var err error
		if s.config.Access, s.accessFiles.tried, err = c.ReadAccess(); err != nil {
			s.Close()
			return nil, fmt.Errorf("serve: %w", err)
		}
		s.accessFiles.seen = s.accessFiles.tried
	}
	s.access.Store(&s.config.Access)
	s.warnOfEnds()
	if err := s.replace(c.Models, c.Models); err != nil {
		s.Close()
		return nil, fmt.Errorf("serve: %w", err)
	}
	s.setHealth(false)
	return s, nil
}

// Close releases the page and the models of a Server whose Serve is not called. Serve does this itself when it returns.
func (s *Server) Close() {
	s.enterState(draining)
	s.end()
	s.models.end()
	s.waitClosed()
}

// Places returns the places for what the page computes. Each may use a part of Limits.Page.
func (s *Server) Places() *places.Places { return s.thoughts }

// SetPage sets the handler of the HTTP port for all paths outside /v2. The server calls end once, when it accepts no more requests; end
// should cancel the page's work in progress. SetPage must be called before Serve.
func (s *Server) SetPage(page http.Handler, end func()) { s.page, s.endPage = page, sync.OnceFunc(end) }

// Listeners are the ports to serve; those that are nil are not served.
type Listeners struct {
	HTTP, GRPC net.Listener
	Metrics    net.Listener // plain HTTP
	Profile    net.Listener // pprof; should be a loopback address
}

// Serve answers clients until ctx ends. Then the server reports that it is not ready, and after Config.DrainDelay it accepts no more
// requests. Serve returns when the accepted requests are answered and all models are closed. It returns an error if the requests take
// longer than Config.DrainTime, or if a port fails.
func (s *Server) Serve(ctx context.Context, l Listeners) error {
	// Requests are answered after ctx has ended, so their contexts must not end with it.
	base := context.WithoutCancel(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g := s.grpcServer()
	web := s.httpServer(base, s.handler())
	metrics := s.httpServer(base, s.metricsHandler())
	profile := s.httpServer(base, profileHandler())
	profile.WriteTimeout = 0 // a profile takes as long as its request says

	failed := make(chan error, 4)
	serving := 0
	serve := func(name string, l net.Listener, most, perAddress int, serve func(net.Listener) error) {
		if l == nil {
			return
		}
		serving++
		of := newConnections(name, most, perAddress, s.memory)
		of.proxies, of.announced, of.wrong = s.config.Proxies, s.config.ProxyProtocol, s.notAnnounced
		s.mu.Lock()
		s.ports = append(s.ports, of)
		s.mu.Unlock()
		l = counted{l, of}
		go func() {
			err := serve(l)
			if errors.Is(err, http.ErrServerClosed) || errors.Is(err, grpc.ErrServerStopped) { // it was stopped, possibly before it started
				err = nil
			}
			if err != nil {
				err = fmt.Errorf("serve %s on %s: %w", name, l.Addr(), err)
			}
			failed <- err
		}()
	}
	s.enterState(ready)
	serve("gRPC", l.GRPC, s.config.Limits.Connections, s.config.Limits.Address, g.Serve)
	serve(httpPort, l.HTTP, s.config.Limits.Connections, s.config.Limits.Address, func(l net.Listener) error {
		if web.TLSConfig = s.tlsConfig("h2", "http/1.1"); web.TLSConfig != nil {
			return web.ServeTLS(l, "", "")
		}
		return web.Serve(l)
	})
	serve("metrics", l.Metrics, fewConnections, 0, metrics.Serve)
	serve("profiles", l.Profile, fewConnections, 0, profile.Serve)

	ending := make(chan struct{})
	defer close(ending)
	go s.tidy(ending)
	var watching sync.WaitGroup
	if s.config.Watch > 0 {
		watching.Go(func() { s.watch(ctx) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		serving--
	}
	err = errors.Join(err, s.drain(g, web))
	err = errors.Join(err, metrics.Close(), profile.Close())
	for range serving {
		err = errors.Join(err, <-failed)
	}
	stop()
	watching.Wait()
	s.models.end()
	if err == nil {
		s.waitClosed()
	}
	return err
}

// waitClosed waits until all models are closed, at most lingerTime. No requests are left, so only an evaluator that hangs can make this
// time out.
func (s *Server) waitClosed() {
	select {
	case <-finished(func() { s.generations.Wait(); s.prover.Close() }):
	case <-time.After(lingerTime):
		s.config.Log.Warn("some models did not close in time")
	}
}

// finished returns a channel that is closed when wait has returned.
func finished(wait func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	return done
}

const (
	httpPort       = "HTTP"
	fewConnections = 64 // of each port for metrics and profiles
	leastSlots     = 4  // messages of gRPC that may be read at once even if there is little memory
)

// tidy runs until ending is closed. It closes connections whose clients do not read their answers, and after a peak it returns
// memory to the operating system.
func (s *Server) tidy(ending <-chan struct{}) {
	patience := s.writeTime()
	tick := time.NewTicker(max(patience/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ending:
			return
		case now := <-tick.C:
			for _, p := range s.openPorts() {
				p.closeStuck(now.Add(-patience))
			}
			if s.memory.cooled() {
				debug.FreeOSMemory()
				debug.FreeOSMemory() // pools are emptied by the second garbage collection
			}
		}
	}
}

// openPorts returns the connections of all ports that are served.
func (s *Server) openPorts() []*connections {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ports
}

// drain ends the service. While it accepts requests, it asks clients to use other connections: by Connection: close over HTTP, then by GOAWAY
// over gRPC. So a balancer that moves no connection loses no request. drain waits up to DrainTime for the answers to all accepted requests.
func (s *Server) drain(g *grpc.Server, web *http.Server) error {
	s.enterState(notReady)
	s.config.Log.Info("not ready any more", "drain_delay", s.config.DrainDelay)
	time.Sleep(s.config.DrainDelay)
	stopped := finished(g.GracefulStop) // asks clients to call elsewhere, and answers what they have sent before they know
	select {
	case <-stopped:
	case <-time.After(goodbyeTime):
	}
	s.enterState(draining)
	s.mu.Lock()
	s.config.Log.Info("accepts no more requests", "under_way", s.requests)
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.DrainTime)
	defer cancel()
	err := web.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, web.Close())
	}
	answered := true
	select {
	case <-finished(s.answering.Wait):
	case <-ctx.Done():
		answered = false
	}
	// A client could keep a stream such as a health watch open for ever. It gets time to read the last status, and then the stream is ended.
	for _, patience := range []time.Duration{tellTime, lingerTime} {
		select {
		case <-stopped:
		case <-ctx.Done():
		case <-time.After(patience):
		}
		s.end()
	}
	g.Stop()
	<-stopped
	if err != nil || !answered {
		return fmt.Errorf("serve: some requests were not answered within %v", s.config.DrainTime)
	}
	s.config.Log.Info("all requests are answered")
	return nil
}

// goodbyeTime is the maximum time during which calls are still accepted that clients send before they know that the server ends.
// tellTime is the time for health watchers to receive the last status. lingerTime is the time for sending finished answers, and for closing
// models.
const (
	goodbyeTime = time.Second
	tellTime    = 100 * time.Millisecond
	lingerTime  = 5 * time.Second
)

func (s *Server) enterState(to state) {
	s.mu.Lock()
	s.state = to
	s.setHealth(to == ready)
	s.mu.Unlock()
	if to == draining {
		s.endTake()
		s.endPage()
	}
}

// isReady reports whether the server is ready for requests.
func (s *Server) isReady() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == ready
}

var errDraining = status.Error(codes.Unavailable, "the server is shutting down")
