package service

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/eval/evaltest"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
)

// A search's answer follows from the position and its visits, whatever requests come with it, how many positions they
// have, how they are merged, and over which transport; with probes. Package mcts has the same test at full size, and without probes.
func TestSearchCompany(t *testing.T) {
	const exact = 300
	config := testConfig(&evaltest.Stub{Source: eval.CPU})
	config.Settings.Cache = 256 // some answers are remembered, and soon forgotten
	s := serve(t, config)
	const visits = 12
	ways := []func(pos []game.Position) []string{
		func(pos []game.Position) []string {
			r := searchRequest(visits, pos...)
			setParameter(r, "exact", exact)
			got, err := s.api.ModelInfer(t.Context(), r)
			if err != nil {
				t.Error(err)
				return make([]string, len(pos))
			}
			return rowsOf(raws(got), len(pos))
		},
		func(pos []game.Position) []string {
			data := ""
			for _, p := range pos {
				data += fmt.Sprintf(",%d,%d", p.Own.Lo, p.All.Lo)
			}
			return rowsOf(s.outputs(t, "/v2/models/search/infer", nil, fmt.Appendf(nil, `{"parameters":{"visits":%d,"exact":%v,"binary_data_output":true},
				"inputs":[{"name":"bitboards","datatype":"UINT64","shape":[%d,2],"data":[%s]}]}`, visits, exact, len(pos), data[1:])), len(pos))
		},
	}
	random := gametest.Rand(2)
	many := 45
	if testing.Short() { // the race detector finds nothing more in repetitions
		many = 15
	}
	positions := append(gametest.Open(random, connect4, many), gametest.Positions(random, connect4, 5, true)...)
	var want []string
	for _, p := range positions {
		want = append(want, ways[0]([]game.Position{p})...)
	}
	for range 4 {
		var wait sync.WaitGroup
		for order := random.Perm(len(positions)); len(order) > 0; {
			some := order[:min(len(order), 1<<random.IntN(8), 1+random.IntN(len(order)))]
			order = order[len(some):]
			way := ways[random.IntN(2)]
			wait.Go(func() {
				var pos []game.Position
				for _, k := range some {
					pos = append(pos, positions[k])
				}
				for i, row := range way(pos) {
					if k := some[i]; row != want[k] {
						t.Errorf("%+v beside %d others: %s, alone %s", positions[k], len(some)-1, row, want[k])
					}
				}
			})
		}
		wait.Wait()
	}
}

// outputs posts a request, and returns the values in the reply, those written as JSON under their name " as JSON"; and the id.
func (s *serving) outputs(t *testing.T, path string, header map[string]string, body []byte) map[string][]byte {
	reply, text := s.post(t, path, header, body)
	n, err := strconv.Atoi(reply.Header.Get(jsonLength))
	if reply.StatusCode != http.StatusOK || err != nil {
		t.Errorf("%s: %s", reply.Status, text)
		return nil
	}
	var head struct {
		ID      string
		Outputs []struct {
			Name, Datatype string
			Shape          []int
			Data           []float32
			Parameters     struct {
				Size int `json:"binary_data_size"`
			}
		}
	}
	if err := json.Unmarshal(text[:n], &head); err != nil {
		t.Error(err)
	}
	out := map[string][]byte{}
	if head.ID != "" {
		out["id"] = []byte(head.ID)
	}
	tail := text[n:]
	for _, o := range head.Outputs {
		if o.Datatype == uint8Type && o.Data != nil {
			for _, x := range o.Data {
				out[o.Name+" as JSON"] = append(out[o.Name+" as JSON"], byte(x))
			}
		} else if o.Data != nil {
			out[o.Name+" as JSON"] = appendNumbers(nil, o.Data)
		} else {
			out[o.Name], tail = tail[:o.Parameters.Size], tail[o.Parameters.Size:]
		}
		if size := o.Parameters.Size; o.Datatype == floatType && size > 0 && size != 4*o.Shape[0]*o.Shape[1] {
			t.Errorf("%s: %d bytes for shape %v", o.Name, size, o.Shape)
		}
	}
	if len(tail) > 0 {
		t.Errorf("%d bytes follow the outputs", len(tail))
	}
	return out
}

// rowsOf deals the values of fixed size out to rows, as text.
func rowsOf(values map[string][]byte, n int) []string {
	rows := make([]string, n)
	for _, name := range slices.DeleteFunc(slices.Clone(searchedOutputs), func(name string) bool { return name == sourceOutput }) {
		width := len(values[name]) / n
		for i := range rows {
			rows[i] += fmt.Sprintf("%s %x ", name, values[name][i*width:(i+1)*width])
		}
	}
	return rows
}
