package bench

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/net"
)

// GPUReport is the table of speeds on a GPU.
type GPUReport struct {
	Device    string   `json:"device"`
	Driver    string   `json:"driver"`
	Emulated  bool     `json:"emulated"`             // no GPU computed this: the numbers mean nothing
	Peak      float64  `json:"peak_flops,omitempty"` // of large bf16 matrix products, as PyTorch measures them; 0 without it
	PyTorch   string   `json:"pytorch,omitempty"`    // its version
	NoPyTorch string   `json:"no_pytorch,omitempty"` // why there is none
	Rows      []GPURow `json:"rows"`
}

// GPURow is one network at one size of batches, on 7x6. Rates are positions a second, medians of the rounds.
type GPURow struct {
	Network  string  `json:"network"`
	Kernel   string  `json:"kernel"`
	Batch    int     `json:"batch"`
	Waves    int     `json:"waves"`           // of all multiprocessors, for a batch
	Device   float64 `json:"device"`          // positions and answers in the device's memory
	Share    float64 `json:"share,omitempty"` // of the peak, by the network's products on the device
	EndToEnd float64 `json:"end_to_end"`      // through Evaluate, four callers at once
	Latency  float64 `json:"latency_seconds"` // of Evaluate, one caller alone

	PyTorch         float64 `json:"pytorch,omitempty"`            // as Device
	PyTorchEndToEnd float64 `json:"pytorch_end_to_end,omitempty"` // as EndToEnd, but for one caller
	PyTorchHow      string  `json:"pytorch_how,omitempty"`
}

// Named is a network with a name for reports.
type Named struct {
	Name    string
	Network *net.Network
}

// gpuCallers is how many callers evaluate at once for EndToEnd.
const gpuCallers = 4

// GPU measures networks on the first device, and beside PyTorch unless peer is nil. A round of a figure takes about d.
// If PyTorch is missing, the report says so; if the GPU is, that is an error.
func GPU(ctx context.Context, d time.Duration, networks []Named, batches []int, peer *Torch, progress func(string)) (*GPUReport, error) {
	found, err := driver.Find()
	if err != nil {
		return nil, err
	}
	r := &GPUReport{
		Device: found.Devices[0].String(), Driver: fmt.Sprintf("%s, CUDA %d", found.Library, found.Version),
		Emulated: found.Devices[0].Emulated(), NoPyTorch: "not asked for",
	}
	for _, n := range networks {
		if err := r.network(ctx, d, n, batches, peer, progress); err != nil {
			return nil, fmt.Errorf("network %s: %w", n.Name, err)
		}
	}
	return r, nil
}

func (r *GPUReport) network(ctx context.Context, d time.Duration, n Named, batches []int, peer *Torch, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	progress(n.Name + ": self-test")
	e, notes, err := gpu.New(n.Network, gpu.Options{})
	if err != nil {
		return err
	}
	defer e.Close()
	if len(notes) > 0 {
		return notes[0]
	}
	board := game.MustBoard(game.Connect4)
	some := playedPositions(board, 1024)
	torch := r.peer(ctx, d, n, board, some[:64], peer)
	if torch != nil {
		defer torch.stop()
	}
	for _, size := range batches {
		progress(fmt.Sprintf("%s: batch %d", n.Name, size))
		pos := make([]game.Position, size)
		for i := range pos {
			pos[i] = some[i%len(some)]
		}
		row := GPURow{Network: n.Name, Batch: size}
		if err := row.device(ctx, d, e, board, pos); err != nil {
			return fmt.Errorf("batch %d: %w", size, err)
		}
		if err := row.endToEnd(ctx, d, e, board, pos); err != nil {
			return fmt.Errorf("batch %d: %w", size, err)
		}
		if torch != nil {
			var rates torchRates
			if err := torch.ask(map[string]any{"batch": size, "seconds": d.Seconds()}, &rates); err != nil {
				return fmt.Errorf("peer pytorch: batch %d: %w", size, err)
			}
			row.PyTorch, row.PyTorchEndToEnd, row.PyTorchHow = rates.Device, rates.EndToEnd, rates.How
		}
		if r.Peak > 0 {
			row.Share = row.Device * flops(n.Network.Config(), board) / r.Peak
		}
		r.Rows = append(r.Rows, row)
	}
	return nil
}

// peer starts PyTorch for a network. If it does not start, the report says why.
func (r *GPUReport) peer(ctx context.Context, d time.Duration, n Named, board *game.Board, pos []game.Position, peer *Torch) *Torch {
	if peer == nil {
		return nil
	}
	b := eval.NewBatch(board, len(pos))
	copy(b.Pos, pos)
	torch := &Torch{Python: peer.Python, Device: peer.Device}
	err := torch.start(ctx, n.Network, b)
	if err == nil && r.Peak == 0 {
		var peak struct{ FLOPs float64 }
		err = torch.ask(map[string]any{"peak": d.Seconds()}, &peak)
		r.Peak = peak.FLOPs
	}
	if err != nil {
		torch.stop()
		r.NoPyTorch = err.Error()
		return nil
	}
	r.PyTorch, r.NoPyTorch = torch.version, ""
	return torch
}

// device measures launches alone.
func (row *GPURow) device(ctx context.Context, d time.Duration, e *gpu.Evaluator, board *game.Board, pos []game.Position) error {
	t, err := e.Time(board, pos, 1)
	if err != nil {
		return err
	}
	row.Kernel, row.Waves = t.Kernel, t.Waves(len(pos))
	launches := max(1, min(10_000, int(d.Seconds()/t.Seconds)))
	var rates []float64
	for range rounds {
		if err := ctx.Err(); err != nil {
			return err
		}
		if t, err = e.Time(board, pos, launches); err != nil {
			return err
		}
		rates = append(rates, float64(len(pos))/t.Seconds)
	}
	row.Device = median(rates)
	return nil
}

// endToEnd measures whole batches, of one caller and of several.
func (row *GPURow) endToEnd(ctx context.Context, d time.Duration, e *gpu.Evaluator, board *game.Board, pos []game.Position) error {
	var batches [gpuCallers]*eval.Batch
	for i := range batches {
		batches[i] = eval.NewBatch(board, len(pos))
		copy(batches[i].Pos, pos)
	}
	var alone, together []float64
	for i := range rounds + 1 { // the first warms up
		rate, err := timed(ctx, e, batches[0], d)()
		if err != nil {
			return err
		}
		all, err := timedTogether(ctx, e, batches[:], d)
		if err != nil {
			return err
		}
		if i > 0 {
			alone, together = append(alone, rate), append(together, all)
		}
	}
	row.Latency, row.EndToEnd = float64(len(pos))/median(alone), median(together)
	return nil
}

// timedTogether is the positions a second of several callers at once.
func timedTogether(ctx context.Context, e eval.Evaluator, batches []*eval.Batch, d time.Duration) (float64, error) {
	var all sync.WaitGroup
	var rows atomic.Int64
	var failed atomic.Value
	start := time.Now()
	for _, b := range batches {
		all.Go(func() {
			for first := true; first || time.Since(start) < d; first = false {
				if err := e.Evaluate(ctx, b); err != nil {
					failed.Store(err)
					return
				}
				rows.Add(int64(len(b.Pos)))
			}
		})
	}
	all.Wait()
	if err, ok := failed.Load().(error); ok {
		return 0, err
	}
	return float64(rows.Load()) / time.Since(start).Seconds(), nil
}

// flops is twice the multiply-adds of all convolutions for one position, those on the padding around the board included:
// what a matrix product per layer computes.
func flops(c net.Config, b *game.Board) float64 {
	channels := float64(c.Channels)
	return 2 * float64(b.Cells()) * (9*net.PlaneCount*channels + 18*float64(c.Blocks)*channels*channels + 2*float64(c.HeadChannels)*channels)
}

// GPUTable writes a report for people.
func GPUTable(w io.Writer, r *GPUReport) error {
	if r.Emulated {
		fmt.Fprintln(w, "EMULATED: no GPU computed this, the numbers mean nothing")
	}
	fmt.Fprintf(w, "device %s\ndriver %s\n", r.Device, r.Driver)
	if r.PyTorch != "" {
		fmt.Fprintf(w, "PyTorch %s; bf16 matrix products at %sFLOP/s\n", r.PyTorch, si(r.Peak))
	} else {
		fmt.Fprintf(w, "no PyTorch: %s\n", r.NoPyTorch)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "network\tbatch\twaves\tpositions/s\tof peak\tend to end\tone batch\tPyTorch\tend to end\tratio\t")
	for _, row := range r.Rows {
		share, peer, peerE, ratio := "", "", "", ""
		if row.Share > 0 {
			share = fmt.Sprintf("%.0f%%", 100*row.Share)
		}
		if row.PyTorch > 0 {
			peer, peerE, ratio = si(row.PyTorch), si(row.PyTorchEndToEnd), fmt.Sprintf("%.1f", row.Device/row.PyTorch)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%s\t%s\t%s\t%v\t%s\t%s\t%s\t\n", row.Network, row.Batch, row.Waves, si(row.Device), share,
			si(row.EndToEnd), time.Duration(row.Latency*1e9).Round(time.Microsecond), peer, peerE, ratio)
	}
	return t.Flush()
}
