//go:build !first

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/evald/evald/cmd/evald/client"
	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/cmd/evald/service"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
)

// ServeFigure is the rate of a service over gRPC, with server and clients in this process, and the latency of requests at half of that rate.
type ServeFigure struct {
	Figure
	// PerCPU is Unit per second of the processor time of server and clients together; CeilingPerCPU is the same for the ceiling. Other
	// programs on the machine hardly affect them.
	PerCPU        float64 `json:"per_cpu_second"`
	CeilingPerCPU float64 `json:"ceiling_per_cpu_second,omitempty"`

	P50     time.Duration `json:"p50_ns,omitempty"` // latency at half of the rate; 0 if it was not measured
	P99     time.Duration `json:"p99_ns,omitempty"`
	Refused float64       `json:"refused,omitempty"` // share of these requests that were refused because too many waited
	Sizes   []uint64      `json:"sizes,omitempty"`   // histogram of batch sizes, as of service.Server.BatchSizes
}

// Serve measures the service: bitsquares in requests of 256, 64 and 1 positions, against a server that answers without evaluating; a network,
// against its evaluator alone; and the batch sizes with 64 clients of single positions. Each round takes about d.
func Serve(ctx context.Context, d time.Duration, e *eval.Evaluator, name string, progress Progress) ([]ServeFigure, error) {
	s := &serveBench{ctx: ctx, d: d, progress: progress, board: game.MustBoard(game.Connect4)}
	s.positions = playedPositions(s.board, 256)
	bitsquares, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		return nil, err
	}
	for _, rows := range []int{256, 64, 1} {
		if err := s.overhead(bitsquares, rows); err != nil {
			return nil, err
		}
	}
	if err := s.network(e, name); err != nil {
		return nil, err
	}
	return s.figures, s.batches(e, name)
}

type serveBench struct {
	ctx       context.Context
	d         time.Duration
	progress  Progress
	board     *game.Board
	positions []game.Position
	figures   []ServeFigure
}

// serve runs a service with an evaluator and connects clients to it. The returned function ends both.
func (s *serveBench) serve(e *eval.Evaluator, name, platform string, clients int) (*service.Server, *callers, func(), error) {
	server, err := service.New(service.Config{
		Rules: game.Connect4, Models: []service.Model{{Name: name}},
		Load: func(service.Model) (service.Loaded, error) {
			return service.Loaded{Backend: e.Backend(), Version: "1", Platform: platform}, nil
		},
		DrainTime: 10 * time.Second,
	})
	if err != nil {
		return nil, nil, nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, end := context.WithCancel(s.ctx)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, service.Listeners{GRPC: l}) }()
	asking, err := dial(l.Addr().String(), clients)
	stop := func() {
		asking.close()
		end()
		<-ended
	}
	if err != nil {
		stop()
	}
	return server, asking, stop, err
}

// overhead measures requests of the given number of rows to a fast evaluator, in turns with the same requests to a server that returns a
// ready answer.
func (s *serveBench) overhead(e *eval.Evaluator, rows int) error {
	_, callers, stop, err := s.serve(e, "bitsquares", service.HeuristicPlatform, serveClients)
	if err != nil {
		return err
	}
	defer stop()
	ask := s.request("bitsquares", rows)
	ready, err := callers.apis[0].ModelInfer(s.ctx, ask)
	if err != nil {
		return err
	}
	nothing, stopNothing, err := answering(ready)
	if err != nil {
		return err
	}
	defer stopNothing()
	idle, err := dial(nothing, serveClients)
	defer idle.close()
	if err != nil {
		return err
	}
	f := Figure{Name: fmt.Sprintf("bitsquares over gRPC, requests of %d", rows), Unit: "positions", Why: "gRPC with the answer ready"}
	return s.beside(f, callers, ask, idle.contender(s, "", ask).round)
}

// network measures requests of 256 rows to a network, in turns with the network's evaluator alone.
func (s *serveBench) network(e *eval.Evaluator, name string) error {
	f := Figure{Name: "network " + name + " over gRPC, requests of 256", Unit: "positions", Why: "its evaluator alone"}
	_, callers, stop, err := s.serve(e, name, service.NetworkPlatform, 4)
	if err != nil {
		return err
	}
	defer stop()
	return s.beside(f, callers, s.request(name, 256), func() (float64, error) {
		return together(s.ctx, e.Evaluate, s.board, s.positions, 2, s.d)
	})
}

// beside measures the rate of requests in turns with its ceiling, and then the latency of requests.
func (s *serveBench) beside(figure Figure, callers *callers, ask *kserve.ModelInferRequest, ceiling func() (float64, error)) error {
	best, own := &contender{name: figure.Why, round: ceiling}, callers.contender(s, figure.Name, ask)
	if err := race(s.ctx, []*contender{best, own}, s.d, s.progress); err != nil {
		return err
	}
	f := ServeFigure{Figure: figure, PerCPU: median(own.perCPU), CeilingPerCPU: median(best.perCPU)}
	f.Rate, f.Ceiling = median(own.rates), median(best.rates)
	if err := f.paced(s.ctx, s.d, callers, ask); err != nil {
		return err
	}
	s.figures = append(s.figures, f)
	return nil
}

// batches measures the rate with 64 clients that send single positions, and the sizes of the batches that the service forms.
func (s *serveBench) batches(e *eval.Evaluator, name string) error {
	f := ServeFigure{Figure: Figure{Name: "network " + name + " over gRPC, 64 clients of one position", Unit: "positions"}}
	server, callers, stop, err := s.serve(e, name, service.NetworkPlatform, 64)
	if err != nil {
		return err
	}
	defer stop()
	own := callers.contender(s, f.Name, s.request(name, 1))
	if err := race(s.ctx, []*contender{own}, s.d, s.progress); err != nil {
		return err
	}
	f.Rate, f.PerCPU = median(own.rates), median(own.perCPU)
	f.Sizes = server.BatchSizes(name)
	for len(f.Sizes) > 0 && f.Sizes[len(f.Sizes)-1] == 0 {
		f.Sizes = f.Sizes[:len(f.Sizes)-1]
	}
	s.figures = append(s.figures, f)
	return nil
}

// request returns a request for win-draw-loss and policy of the given number of positions.
func (s *serveBench) request(model string, rows int) *kserve.ModelInferRequest {
	return &kserve.ModelInferRequest{
		ModelName:        model,
		Inputs:           []*kserve.ModelInferRequest_InferInputTensor{{Name: "bitboards", Datatype: "UINT64", Shape: []int64{int64(rows), 2}}},
		Outputs:          []*kserve.ModelInferRequest_InferRequestedOutputTensor{{Name: "wdl"}, {Name: "policy"}},
		RawInputContents: [][]byte{client.Bitboards(s.board, s.positions[:rows])},
	}
}

// serveClients is the number of concurrent clients, each with a connection of its own.
const serveClients = 8

// callers are clients, each with a connection of its own.
type callers struct {
	conns []*grpc.ClientConn
	apis  []kserve.GRPCInferenceServiceClient
}

// dial connects n clients. The caller must close them, also after an error.
func dial(address string, n int) (*callers, error) {
	c := &callers{}
	for range n {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return c, err
		}
		c.conns = append(c.conns, conn)
		c.apis = append(c.apis, kserve.NewGRPCInferenceServiceClient(conn))
	}
	return c, nil
}

func (c *callers) close() {
	for _, conn := range c.conns {
		conn.Close()
	}
}

// contender returns a contender of all clients, each of which sends the next request as soon as it has an answer.
func (c *callers) contender(s *serveBench, name string, ask *kserve.ModelInferRequest) *contender {
	return &contender{name: name, round: func() (float64, error) {
		t, err := count(len(c.apis), s.d, func(i int) (int, error) {
			_, err := c.apis[i].ModelInfer(s.ctx, ask)
			return int(ask.Inputs[0].Shape[0]), err
		})
		return t.rate(), err
	}}
}

// paced sends requests at half of the rate, at regular times regardless of answers, and sets the latencies, which count from the time at
// which a request was due, to the medians of the rounds. Refused requests count only in Refused.
func (f *ServeFigure) paced(ctx context.Context, d time.Duration, c *callers, ask *kserve.ModelInferRequest) error {
	var p50, p99 []time.Duration
	sent, refused := 0, 0
	for range rounds {
		times, no, err := c.paced(ctx, d, f.Rate/float64(ask.Inputs[0].Shape[0])/2, ask)
		if err != nil {
			return err
		}
		sent, refused = sent+len(times)+no, refused+no
		p50, p99 = append(p50, quantile(times, 0.5)), append(p99, quantile(times, 0.99))
	}
	f.P50, f.P99, f.Refused = median(p50), median(p99), float64(refused)/float64(max(sent, 1))
	return nil
}

// paced sends perSecond requests per second for d. It returns the sorted latencies of the answered requests, and the number of refused ones.
func (c *callers) paced(ctx context.Context, d time.Duration, perSecond float64, ask *kserve.ModelInferRequest) (times []time.Duration, refused int, failed error) {
	var mu sync.Mutex
	var wait sync.WaitGroup
	start := time.Now()
	for i := range int(d.Seconds() * perSecond) {
		due := start.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		time.Sleep(time.Until(due))
		wait.Go(func() {
			_, err := c.apis[i%len(c.apis)].ModelInfer(ctx, ask)
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case status.Code(err) == codes.ResourceExhausted:
				refused++
			case err != nil:
				failed = err
			default:
				times = append(times, took)
			}
		})
	}
	wait.Wait()
	slices.Sort(times)
	return times, refused, failed
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// answering starts a server that returns the same answer to every request.
func answering(ready *kserve.ModelInferResponse) (address string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	g := grpc.NewServer()
	kserve.RegisterGRPCInferenceServiceServer(g, constant{ready: ready})
	ended := make(chan struct{})
	go func() {
		_ = g.Serve(l) // returns after Stop
		close(ended)
	}()
	return l.Addr().String(), func() { g.Stop(); <-ended }, nil
}

type constant struct {
	kserve.UnimplementedGRPCInferenceServiceServer
	ready *kserve.ModelInferResponse
}

func (c constant) ModelInfer(context.Context, *kserve.ModelInferRequest) (*kserve.ModelInferResponse, error) {
	return c.ready, nil
}

// ServeTable writes figures as a table.
func ServeTable(w io.Writer, figures []ServeFigure) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\trate\ta CPU second\tp50, p99 at half the rate\tshare of ceiling\ta CPU second\tceiling")
	for _, f := range figures {
		share, cpuShare, ceiling, latency := "", "", "", ""
		if f.Ceiling > 0 {
			cpuShare = percent(f.PerCPU / f.CeilingPerCPU)
			share, ceiling = percent(f.Share()), si(f.Ceiling)+"/s, "+f.Why
		}
		if f.P99 > 0 {
			latency = fmt.Sprintf("%v, %v", f.P50.Round(time.Microsecond), f.P99.Round(time.Microsecond))
		}
		if f.Refused > 0 {
			latency += fmt.Sprintf(", %.1f%% refused", 100*f.Refused)
		}
		fmt.Fprintf(t, "%s\t%s/s\t%s\t%s\t%s\t%s\t%s\n", f.Name, si(f.Rate), si(f.PerCPU), latency, share, cpuShare, ceiling)
	}
	above := slices.ContainsFunc(figures, func(f ServeFigure) bool { return f.Ceiling > 0 && (f.Share() > 1 || f.PerCPU > f.CeilingPerCPU) })
	if err := errors.Join(t.Flush(), explainShares(w, above)); err != nil {
		return err
	}
	for _, f := range figures {
		if len(f.Sizes) == 0 {
			continue
		}
		fmt.Fprintf(w, "\nbatches of %s:\n", f.Name)
		for i, n := range f.Sizes {
			fmt.Fprintf(w, "  up to %4d rows  %d\n", 1<<i, n)
		}
	}
	return nil
}
