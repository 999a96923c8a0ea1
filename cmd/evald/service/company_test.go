package service

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"reflect"
	"sync"
	"testing"

	"github.com/evald/evald/cmd/evald/kserve"
	"github.com/evald/evald/engine/eval"
	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/game/gametest"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/models"
	"github.com/evald/evald/nn/cpu"
	"github.com/evald/evald/nn/net"
)

// A search's answer follows from the position and its visits, whatever requests come with it, how many positions they
// have, how they are merged, and over which transport.
func TestSearchCompany(t *testing.T) {
	bitsquares, err := heuristic.New(eval.Bitsquares)
	if err != nil {
		t.Fatal(err)
	}
	content, _, err := models.Open("default")
	if err != nil {
		t.Fatal(err)
	}
	network, err := net.Parse(content)
	if err != nil {
		t.Fatal(err)
	}
	onCPU, _ := cpu.New(network)
	for name, c := range map[string]struct {
		eval.Backend
		positions, rounds, visits int
	}{"bitsquares": {bitsquares.Backend(), 1000, 20, 12}, "network": {onCPU, 32, 4, 24}} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				c.positions, c.rounds = c.positions/8, c.rounds/4
			}
			config := testConfig(c)
			config.Cache = 256 // some answers are remembered, and soon forgotten
			s := serve(t, config)
			api := s.dial(t)
			ways := []func(pos []game.Position) []searchRow{
				func(pos []game.Position) []searchRow { return searchByGRPC(t, api, pos, c.visits) },
				func(pos []game.Position) []searchRow { return s.searchByREST(t, pos, c.visits) },
			}
			random := gametest.Rand(2)
			positions := append(gametest.Open(random, connect4, c.positions*9/10), gametest.Positions(random, connect4, c.positions/10, true)...)
			var want []searchRow
			for _, p := range positions {
				want = append(want, ways[0]([]game.Position{p})...)
			}
			for range c.rounds {
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
							if k := some[i]; !reflect.DeepEqual(row, want[k]) {
								t.Errorf("%+v beside %d others: %+v, alone %+v", positions[k], len(some)-1, row, want[k])
							}
						}
					})
				}
				wait.Wait()
			}
		})
	}
}

// searchRow is all that the service says of one position.
type searchRow struct {
	WDL, Policy, Q []float32
	Visits         []int32
}

func searchByGRPC(t testing.TB, api kserve.GRPCInferenceServiceClient, pos []game.Position, visits int) []searchRow {
	ask := bitboardRequest(connect4, pos...)
	ask.ModelName = searchModel
	setParameter(ask, "visits", visits)
	got, err := api.ModelInfer(t.Context(), ask)
	if err != nil {
		t.Error(err)
		return nil
	}
	values := map[string][]float64{}
	for name, raw := range raws(got) {
		for i := 0; name != "source" && name != "gameover" && i < len(raw); i += 4 {
			if name == "visits" {
				values[name] = append(values[name], float64(binary.LittleEndian.Uint32(raw[i:])))
			} else {
				values[name] = append(values[name], float64(floatAt(raw[i:])))
			}
		}
	}
	return searchRows(values, len(pos))
}

func (s *serving) searchByREST(t testing.TB, pos []game.Position, visits int) []searchRow {
	var data []uint64
	for _, p := range pos {
		data = append(data, p.Own.Lo, p.All.Lo)
	}
	type object = map[string]any
	ask, err := json.Marshal(object{
		"parameters": object{"visits": visits},
		"inputs":     []object{{"name": "bitboards", "datatype": "UINT64", "shape": []int{len(pos), 2}, "data": data}},
		"outputs":    []object{{"name": "wdl"}, {"name": "policy"}, {"name": "q"}, {"name": "visits"}},
	})
	if err != nil {
		t.Error(err)
		return nil
	}
	reply, text := s.post(t, "/v2/models/"+searchModel+"/infer", nil, ask)
	var got struct {
		Outputs []struct {
			Name string
			Data []float64
		}
	}
	if err := json.Unmarshal(text, &got); err != nil || reply.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", reply.Status, text)
		return nil
	}
	values := map[string][]float64{}
	for _, o := range got.Outputs {
		values[o.Name] = o.Data
	}
	return searchRows(values, len(pos))
}

// searchRows deals outputs out to positions.
func searchRows(values map[string][]float64, n int) []searchRow {
	rows := make([]searchRow, n)
	floats := func(name string, i int) (row []float32) {
		width := len(values[name]) / n
		for _, x := range values[name][i*width : (i+1)*width] {
			row = append(row, float32(x))
		}
		return row
	}
	for i := range rows {
		rows[i] = searchRow{WDL: floats("wdl", i), Policy: floats("policy", i), Q: floats("q", i)}
		for _, x := range floats("visits", i) {
			rows[i].Visits = append(rows[i].Visits, int32(x))
		}
	}
	return rows
}
