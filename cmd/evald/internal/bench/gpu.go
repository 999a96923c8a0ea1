package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/kernels/cuda/driver"
	"github.com/evald/evald/nn/gpu"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/open"
)

// GPURow is the measurement of one network with one batch size, on 7x6. Rates are positions per second, medians of the rounds.
type GPURow struct {
	Network string `json:"network"`
	Batch   int    `json:"batch"`
	// The device. Emulated means that no GPU computed this, so the numbers are meaningless.
	Device   string `json:"device"`
	Driver   string `json:"driver"`
	Emulated bool   `json:"emulated,omitempty"`

	Kernel   string  `json:"kernel,omitempty"`
	Waves    int     `json:"waves,omitempty"`           // number of waves over all multiprocessors for a batch
	Launch   float64 `json:"launch,omitempty"`          // rate of launches alone, with positions and answers in the device's memory
	FLOPs    float64 `json:"flops,omitempty"`           // floating-point operations per second of the network's convolutions in these launches
	Bytes    float64 `json:"bytes,omitempty"`           // of rows of pattern tables that these launches read per second, from any memory
	EndToEnd float64 `json:"end_to_end,omitempty"`      // rate of Evaluate with gpuCallers concurrent callers
	Latency  float64 `json:"latency_seconds,omitempty"` // of Evaluate with a single caller

	Peer  *GPUPeer `json:"peer,omitempty"`  // another program, measured in turns with evald
	Error string   `json:"error,omitempty"` // why some figures are missing
}

// GPUPeer is the measurement of another program with the same network and batch.
type GPUPeer struct {
	How      string  `json:"how"`                  // the program, its version and how it is used
	Launch   float64 `json:"launch"`               // as in GPURow, with a CUDA graph of the network
	EndToEnd float64 `json:"end_to_end"`           // with copies of planes and answers, for a single caller
	Peak     float64 `json:"peak_flops,omitempty"` // rate of the program's large matrix products in the same precision
	Ready    float64 `json:"ready_seconds"`        // time to compile and to capture the graph
	Ratio    float64 `json:"ratio"`                // evald's Launch divided by the peer's: the median of the rounds, the least and the most
	Least    float64 `json:"least"`
	Most     float64 `json:"most"`
}

// Named is a network with a name for reports.
type Named struct {
	Name    string
	Network open.Network
}

// GPUWork describes what GPU measures.
type GPUWork struct {
	Device   driver.Device
	Driver   *driver.Driver // the driver of Device
	Networks []Named
	Batches  []int
	Note     func(text string) // is called with each kernel that is not used and the reason
	Trial    []string          // gpu.Options.Trial
	Kernel   string            // a name of gpu.Variants; empty: the fastest for each network
	Peer     *Torch            // may be nil
	Round    time.Duration     // time of a round
}

// gpuCallers is the number of concurrent callers for EndToEnd.
const gpuCallers = 4

// GPU measures networks on a device, and calls done with each row as soon as it is measured. If the peer fails, the row has its error beside
// evald's figures, and GPU continues. If the device fails, the row with the error is the last one. GPU returns the first error.
func GPU(ctx context.Context, w GPUWork, done func(GPURow) error, progress Progress) error {
	m := &gpuBench{GPUWork: w, ctx: ctx, board: game.MustBoard(game.Connect4), done: done, progress: progress}
	m.empty = GPURow{Device: w.Device.String(), Driver: fmt.Sprintf("%s, CUDA %d", w.Driver.Library, w.Driver.Version), Emulated: w.Device.Emulated()}
	m.some = playedPositions(m.board, 1024)
	for _, n := range w.Networks {
		of, err := kindOf(n.Name, n.Network)
		if err == nil {
			err = m.network(n.Name, of)
		}
		if err != nil {
			return fmt.Errorf("network %s: %w", n.Name, err)
		}
	}
	return m.failed
}

type gpuBench struct {
	GPUWork
	ctx      context.Context
	board    *game.Board
	some     []game.Position
	distinct []game.Position // for pattern tables
	empty    GPURow          // a row with the fields that all rows have in common
	done     func(GPURow) error
	progress Progress
	failed   error // first error of a peer
}

// mostDistinct is the number of different positions in larger batches for pattern tables. Their speed depends on the caches, and repeated
// positions would find their rows of the table there. 262,144 positions of random games read most of the rows that such games need.
const mostDistinct = 1 << 18

// distinctPositions returns n different unfinished positions of random games, in random order.
func distinctPositions(b *game.Board, n int) []game.Position {
	known := make(map[game.Position]bool, n)
	ps := make([]game.Position, 0, n)
	for drawn := n; len(ps) < n; drawn *= 2 {
		for _, p := range playedPositions(b, drawn) {
			if !known[p] && len(ps) < n {
				known[p], ps = true, append(ps, p)
			}
		}
	}
	return ps
}

func (m *gpuBench) network(name string, of kind) error {
	m.progress.show("%s: self-test", name)
	e, notes, err := of.onGPU(gpu.Options{Devices: []int{m.Device.Index}, Kernel: m.Kernel, Trial: m.Trial})
	if err != nil {
		return err
	}
	defer e.Close()
	for _, note := range notes {
		m.Note(note.Error())
	}
	pos := m.some
	if of.distinct() {
		if m.distinct == nil {
			m.distinct = distinctPositions(m.board, min(mostDistinct, slices.Max(m.Batches)))
		}
		pos = m.distinct
	}
	var peak float64
	if m.Peer != nil {
		if peak, err = m.startPeer(name, of); err != nil {
			return err
		}
		defer m.Peer.stop()
	}
	for _, size := range m.Batches {
		m.progress.show("%s: batch %d", name, size)
		row := m.empty
		row.Network, row.Batch = name, size
		err := m.measure(e, &row, pos, peak)
		of.work(&row, m.board)
		if err != nil {
			err = fmt.Errorf("batch %d: %w", size, err)
			row.Error = err.Error()
		}
		if err := m.done(row); err != nil {
			return err
		}
		var reported errPeer
		if errors.As(err, &reported) && m.failed == nil {
			m.failed = fmt.Errorf("network %s: %w", name, err)
		} else if err != nil && reported == "" {
			return err
		}
	}
	return nil
}

// startPeer starts the peer with a network and, if the peer is PyTorch, returns its rate of large matrix products.
func (m *gpuBench) startPeer(name string, of kind) (peak float64, err error) {
	m.progress.show("%s: peer %s", name, m.Peer.Way)
	if err := of.startPeer(m.ctx, m.Peer, newBatch(m.board, m.some, 64)); err != nil {
		return 0, err
	}
	if m.Peer.Way == "pytorch" {
		var answer struct{ FLOPs float64 }
		err = m.Peer.question(map[string]any{"peak": m.Round.Seconds()}, &answer)
		peak = answer.FLOPs
	}
	if err != nil {
		m.Peer.stop()
	}
	return peak, err
}

// measure measures evald and the peer in turns, or evald alone if there is no peer or it fails, and fills the row.
func (m *gpuBench) measure(e *gpu.Backend, row *GPURow, pos []game.Position, peak float64) error {
	b := newBatch(m.board, pos, row.Batch)
	first, err := e.Time(m.board, b.Pos, 1)
	if err != nil {
		return err
	}
	row.Kernel, row.Waves = first.Kernel, first.Waves(row.Batch)
	launches := max(1, min(10_000, int(m.Round.Seconds()/first.Seconds)))
	var failed error // of the peer
	theirs := func(name string, endToEnd bool) *contender {
		return &contender{name: m.Peer.Way + ", " + name, round: func() (rate float64, err error) {
			rate, failed = m.Peer.rate(m.Round.Seconds(), endToEnd)
			return rate, failed
		}}
	}
	ours := []*contender{
		{name: "launches", round: func() (float64, error) {
			t, err := e.Time(m.board, b.Pos, launches)
			return float64(row.Batch) / t.Seconds, err
		}},
		{name: "one caller", round: timed(m.ctx, e.Compute, b, m.Round)},
		{name: "several callers", round: func() (float64, error) {
			return together(m.ctx, e.Compute, m.board, b.Pos, gpuCallers, m.Round)
		}},
	}
	if m.Peer != nil {
		peer, all := &GPUPeer{How: m.Peer.how, Peak: peak}, append(ours, theirs("launches", false), theirs("end to end", true))
		if peer.Ready, failed = m.Peer.ready(row.Batch); failed == nil {
			err = race(m.ctx, all, m.Round, m.progress)
		}
		if err == nil && failed == nil {
			ratios := all[0].ratios(all[3])
			peer.Launch, peer.EndToEnd = median(all[3].rates), median(all[4].rates)
			peer.Ratio, peer.Least, peer.Most = median(ratios), slices.Min(ratios), slices.Max(ratios)
			row.Peer = peer
		}
	}
	if m.Peer == nil || failed != nil {
		err = race(m.ctx, ours, m.Round, m.progress)
	}
	if err != nil {
		return err
	}
	row.Launch, row.Latency, row.EndToEnd = median(ours[0].rates), float64(row.Batch)/median(ours[1].rates), median(ours[2].rates)
	return failed
}

// flops returns the floating-point operations of all convolutions for one position, two per multiply-add. They include those on the padding
// around the board, as if each layer were a matrix product.
func flops(c net.Config, b *game.Board) float64 {
	channels := float64(c.Channels)
	return 2 * float64(b.Cells()) * (9*net.PlaneCount*channels + 18*float64(c.Blocks)*channels*channels + 2*float64(c.HeadChannels)*channels)
}

// GPUTable writes rows, at least one, as a table.
func GPUTable(w io.Writer, rows []GPURow) error {
	if rows[0].Emulated {
		fmt.Fprintln(w, "EMULATED: no GPU computed this, the numbers mean nothing")
	}
	fmt.Fprintf(w, "device %s\ndriver %s\n", rows[0].Device, rows[0].Driver)
	peer := ""
	for _, row := range rows {
		if row.Peer != nil && row.Peer.How != peer {
			peer = row.Peer.How
			fmt.Fprintf(w, "peer   %s", peer)
			if row.Peer.Peak > 0 {
				fmt.Fprintf(w, "; large matrix products at %sFLOP/s", si(row.Peer.Peak))
			}
			fmt.Fprintln(w)
		}
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "network\tkernel\tbatch\twaves\tpositions/s\tFLOP/s\tend to end\tone batch\tpeer\tend to end\tours by peer's\t")
	for _, row := range rows {
		theirs := "\t\t\t"
		if p := row.Peer; p != nil {
			theirs = fmt.Sprintf("%s\t%s\t%.2f (%.2f-%.2f)\t", si(p.Launch), si(p.EndToEnd), p.Ratio, p.Least, p.Most)
		}
		work := si(row.FLOPs)
		if row.Bytes > 0 {
			work = si(row.Bytes) + "B/s"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\t%s\t%v\t%s\n", row.Network, row.Kernel, row.Batch, row.Waves, si(row.Launch), work,
			si(row.EndToEnd), time.Duration(row.Latency*1e9).Round(time.Microsecond), theirs)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, row := range rows {
		if row.Error != "" {
			fmt.Fprintf(w, "%s: %s\n", row.Network, row.Error)
		}
	}
	return nil
}
