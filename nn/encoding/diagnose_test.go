package encoding

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	kernel "github.com/evald/evald/kernels/cpu"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/net"
	"github.com/evald/evald/nn/onnx"
	"github.com/evald/evald/nn/pattern"
)

// network computes the outputs of n positions, value and policy, from its input.
type network func(n int, input []float32) (value, policy []float32)

// runs is the Run of a network whose file has free sizes.
func runs(t *testing.T, of network) Run {
	known := map[[sha256.Size]byte][2][]float32{} // answers by input, because descriptions share them
	return func(_ context.Context, d Description, b *eval.Batch) error {
		d.Input, d.Value.Output, d.Policy.Output, d.Mask = "x", "v", "p", ""
		info := &onnx.Info{Inputs: []onnx.Value{{Name: "x", Type: onnx.Float32}}, Outputs: []onnx.Value{{Name: "v", Type: onnx.Float32}, {Name: "p", Type: onnx.Float32}}}
		c := gametest.Must(NewCodec(d, b.Board, info))(t)
		x := make([]float32, len(b.Pos)*c.Inputs[0].Size)
		Fill(c, 0, b.Pos, x)
		key := sha256.Sum256(gametest.Must(binary.Append(nil, binary.LittleEndian, x))(t))
		answer, found := known[key]
		if !found {
			answer[0], answer[1] = of(len(b.Pos), x)
			known[key] = answer
		}
		c.Decode(b, answer[0], answer[1])
		return nil
	}
}

func described(t *testing.T, name string) Description {
	t.Helper()
	return gametest.Must(Parse(gametest.Must(os.ReadFile("testdata/" + name + ".yaml"))(t)))(t)
}

// disguised is the network of pattern tables that ships, behind the inputs and outputs of another description: it finds the stones in the input
// by comparing each cell with what the description has there for each content. Whatever the input is, it answers.
func disguised(t *testing.T, d Description, board *game.Board) network {
	content, _, err := models.Open("default-fast")
	gametest.OK(t, err)
	tables := pattern.NewBackend(gametest.Must(pattern.Parse(content))(t))
	c := &Codec{board: board, describe: d}
	c.order()
	return func(n int, input []float32) (value, policy []float32) {
		b := eval.NewBatch(board, n)
		for i := range n {
			b.Pos[i] = c.stones(input[i*len(input)/n : (i+1)*len(input)/n])
		}
		gametest.OK(t, tables.Compute(t.Context(), b))
		for i, p := range b.Pos {
			v := b.Value(i)
			if d.Value.For.turned(p.Mover()) {
				v = -v
			}
			value = append(value, v)
			for _, p := range b.PolicyRow(i) {
				if d.Policy.Kind == Logits {
					p = float32(math.Log(float64(p) + 1e-6))
				}
				policy = append(policy, p)
			}
		}
		return value, policy
	}
}

// stones is the position that explains an input best.
func (c *Codec) stones(x []float32) (best game.Position) {
	least := math.Inf(1)
	for mover := range 2 {
		var p game.Position
		sum := 0.
		for bits := c.board.Full(); !bits.IsZero(); bits = bits.WithoutFirst() {
			at, state := c.cells[bits.First()]*c.cellStep, 0
			var off [3]float64
			for i, plane := range c.planes {
				for s := range off {
					off[s] += math.Abs(plane.cell[mover][s] - float64(x[i*c.planeStep+at]))
				}
			}
			for s := range off {
				if off[s] < off[state] {
					state = s
				}
			}
			sum += off[state]
			if state > 0 {
				p.All = p.All.Or(bits.LowBit())
			}
			if state == 1 {
				p.Own = p.Own.Or(bits.LowBit())
			}
		}
		if p.Mover()-1 != mover {
			sum += 0.5
		}
		if sum < least {
			least, best = sum, p
		}
	}
	return best
}

// convolutions is a network of ours on its planes, whatever they are.
func convolutions(t *testing.T, name string, board *game.Board) network {
	content, _, err := models.Open(name)
	gametest.OK(t, err)
	n := gametest.Must(net.Parse(content))(t)
	layer := func(name string) kernel.Affine {
		return kernel.Affine{Weight: n.Weight(name + ".weight").Float32s(), Bias: n.Weight(name + ".bias").Float32s()}
	}
	w := kernel.Network{
		Stem: layer("stem"), ValueConv: layer("value.conv"), FC: layer("value.fc"), WDL: layer("value.wdl"), GameOver: layer("value.gameover"),
		PolicyConv: layer("policy.conv"), PolicyLogit: layer("policy.logit"),
	}
	for i := range n.Config().Blocks {
		w.Blocks = append(w.Blocks, [2]kernel.Affine{layer("blocks." + strconv.Itoa(i) + ".conv1"), layer("blocks." + strconv.Itoa(i) + ".conv2")})
	}
	paths := kernel.Paths()
	tower := gametest.Must(kernel.New(w, paths[slices.IndexFunc(paths, kernel.Path.Exact)]))(t)
	s := tower.NewScratch(board.Rows(), board.Columns())
	return func(n int, input []float32) (value, policy []float32) {
		size := net.PlanesSize(board, 1)
		for first := 0; first < n; first += s.Positions {
			k := min(s.Positions, n-first)
			planes := make([]float32, s.Positions*size)
			copy(planes, input[first*size:(first+k)*size])
			tower.Forward(s, planes[:k*size], k)
			value, policy = append(value, s.WDL[:k*net.WDLs]...), append(policy, s.Cells[:k*board.Cells()]...)
		}
		return value, policy
	}
}

// diagnoseAll checks that the right description is never changed, and that each wrong one is, into the right one.
func diagnoseAll(t *testing.T, right Description, board *game.Board, of network) {
	t.Helper()
	all := gametest.Must(findKnown(t.Context(), board))(t)
	run := runs(t, of)
	r, err := diagnose(t.Context(), right, board, all, run)
	if err != nil {
		t.Errorf("%v: the right description: %v", board.Rules(), err)
	}
	t.Logf("%v: %d positions, %v", board.Rules(), r.Positions, r.Given)
	for i, v := range variants(right)[1:] {
		if v.changed > 1 && i%4 != 0 && !gametest.Soak() {
			continue
		}
		what := fmt.Sprintf("%v: planes %s, rows %s, for %s", board.Rules(), strings.Join(v.Planes, ", "), v.Rows, v.Value.For)
		got, err := diagnose(t.Context(), v.Description, board, all, run)
		misfit, found := errors.AsType[*MisfitError](err)
		if !found {
			t.Errorf("%s: error %v, %v; best: %v", what, err, got.Given, got.Best)
			continue
		}
		if got.Best.Value < r.Given.Value-0.05 || got.Best.Policy < r.Given.Policy-0.05 {
			t.Errorf("%s: %v", what, err)
		}
		if v.changed == 1 && len(misfit.Lines) != 1 {
			t.Errorf("%s: changes %q", what, misfit.Lines)
		}
	}
}

func TestDiagnose(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	for _, name := range []string{"alpha_zero_general", "open_spiel", "open_spiel_egocentric", "lightzero", "pgx"} {
		t.Run(name, func(t *testing.T) {
			d := described(t, name)
			diagnoseAll(t, d, board, disguised(t, d, board))
		})
	}
}

func TestDiagnoseOurs(t *testing.T) {
	for model, games := range map[string][]string{"default": {"7x6x4"}, "any": {"7x6x4", "4x4x3", "9x5x4", "8x7x4", "12x9x5"}} {
		for i, text := range games {
			if i > 1 && !gametest.Soak() {
				break
			}
			board := game.MustBoard(gametest.Must(game.ParseRules(text))(t))
			diagnoseAll(t, ofConvolutions(), board, convolutions(t, model, board))
		}
	}
}

// A quarter of inarow, which is a quarter of the number in a row already, has a hint, and the
// network finds it if it makes a difference.
func TestDiagnoseQuarter(t *testing.T) {
	d := ofConvolutions()
	if hints := d.Hints(); len(hints) > 0 {
		t.Errorf("hints %q to the right description", hints)
	}
	d.Planes = slices.Clone(d.Planes)
	d.Planes[4] = "0.25*inarow"
	for plane, want := range map[string]string{"0.25*inarow": "is inarow", "own-0.25*inarow": "is own-inarow", "0.5*inarow": "", "4*inarow": "", "0.25*ones": ""} {
		hints := Description{Planes: []string{"own", plane}}.Hints()
		if want == "" && len(hints) > 0 || want != "" && (len(hints) != 1 || !strings.HasSuffix(hints[0], want) || !strings.Contains(hints[0], plane)) {
			t.Errorf("%s: hints %q, want one that ends in %q", plane, hints, want)
		}
	}
	board := game.MustBoard(game.Connect4)
	all := gametest.Must(findKnown(t.Context(), board))(t)
	r, err := diagnose(t.Context(), d, board, all, runs(t, convolutions(t, "any", board)))
	misfit, ok := errors.AsType[*MisfitError](err)
	if want := []string{"planes: [own, other, playable, parity, inarow]"}; !ok || !slices.Equal(misfit.Lines, want) {
		t.Errorf("%v, %+v; want %q", err, r, want)
	}
}

// Networks that have learned nothing raise no alarm.
func TestDiagnoseUntrained(t *testing.T) {
	board := game.MustBoard(game.Connect4)
	all := gametest.Must(findKnown(t.Context(), board))(t)
	for seed := range uint64(20) {
		for _, name := range []string{"alpha_zero_general", "open_spiel", "lightzero"} {
			d := described(t, name)
			random := rand.New(rand.NewPCG(seed, 1))
			size := len(d.Planes) * board.Cells()
			weights := make([]float32, 8*size)
			scale := []float64{0.02, 0.2, 2}[seed%3]
			for i := range weights {
				weights[i] = float32(scale * random.NormFloat64())
			}
			bias := float32(random.NormFloat64())
			r, err := diagnose(t.Context(), d, board, all, runs(t, func(n int, x []float32) (value, policy []float32) {
				for i := range n {
					out := [8]float32{bias}
					for o := range out {
						for k, v := range x[i*size : (i+1)*size] {
							out[o] += v * weights[o*size+k]
						}
					}
					value = append(value, float32(math.Tanh(float64(out[0]))))
					for _, l := range out[1:] {
						if d.Policy.Kind == Probs {
							l = float32(math.Exp(float64(l)))
						}
						policy = append(policy, l)
					}
				}
				return value, policy
			}))
			if r.Positions != len(all) || !slices.Equal(r.Fits.Planes, d.Planes) {
				t.Errorf("%s %d: %+v", name, seed, r)
			}
			if err != nil {
				t.Errorf("%s %d: %v", name, seed, err)
			}
		}
	}
}
