package arena

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Standing is a player's row in the table.
type Standing struct {
	Rank     int     `json:"rank"`
	Player   string  `json:"player"`
	Games    int     `json:"games"`
	Wins     int     `json:"wins"`
	Draws    int     `json:"draws"`
	Losses   int     `json:"losses"`
	Score    float64 `json:"score"`         // points per game, 0 to 1; 0 without games
	Elo      float64 `json:"elo"`           // relative to the mean of all players
	EloError float64 `json:"elo_error"`     // half the 95% interval; -1 if there is none
	TooFew   bool    `json:"too_few_games"` // too few for a rating, by TooFewGames of the pairs against all others
	Moves    int     `json:"moves"`
	Seconds  float64 `json:"seconds"`  // per move, on average
	Longest  float64 `json:"longest"`  // seconds of the longest move
	Late     int     `json:"late"`     // moves that took longer than the player's limit
	Forfeits int     `json:"forfeits"` // games lost by an error or an illegal move
	Why      string  `json:"why,omitempty"`
}

// Meeting is the result of one player against another.
type Meeting struct {
	A      string  `json:"a"`
	B      string  `json:"b"`
	Games  int     `json:"games"`
	Wins   int     `json:"wins"` // of A
	Draws  int     `json:"draws"`
	Losses int     `json:"losses"`
	Score  float64 `json:"score"` // of A, points per game
	// Pairs counts pairs of games on one opening by A's points: 0, 0.5, 1, 1.5, 2. Openings with only one game so far are ignored.
	Pairs    [5]int  `json:"pairs"`
	Elo      float64 `json:"elo"`           // A's rating minus B's
	EloError float64 `json:"elo_error"`     // as in Standing
	Superior float64 `json:"superior"`      // probability that A is the stronger player
	TooFew   bool    `json:"too_few_games"` // too few to compare the two, by TooFewGames of Pairs
}

type Table struct {
	Standings []Standing `json:"standings"` // by rating, the best first
	Meetings  []Meeting  `json:"meetings"`  // each pair once, A above B in the standings
	Draws     int        `json:"draws"`
	Games     int        `json:"games"`
	DrawShare float64    `json:"draw_share"` // of the games, 0 to 1; 0 without games
	MeanPlies float64    `json:"mean_plies"` // length of a game, with the opening's moves; 0 without games
}

// NewTable computes the table of the named players from their games.
func NewTable(names []string, games []Game) Table {
	players, index := make([]Standing, len(names)), map[string]int{}
	for i, name := range names {
		players[i].Player = name
		index[name] = i
	}
	pairs := make([][5]int, len(names)) // of each player against all others, by the player's points
	met := map[[2]int][]Game{}          // by pair of players, the lower index first
	for i := range games {
		g := &games[i]
		first, second := index[g.First], index[g.Second]
		a, b := &players[first], &players[second]
		a.count(g.Points, g.FirstSeconds, g.FirstLongest, g.FirstMoves, g.FirstLate)
		b.count(1-g.Points, g.SecondSeconds, g.SecondLongest, g.SecondMoves, g.SecondLate)
		if g.forfeit() {
			loser := a
			if g.Points == 1 {
				loser = b
			}
			loser.Forfeits++
			loser.Why = g.Reason
		}
		pair := [2]int{min(first, second), max(first, second)}
		met[pair] = append(met[pair], *g)
	}
	var encounters []Encounter
	for a := range names {
		for b := a + 1; b < len(names); b++ {
			games := met[[2]int{a, b}]
			encounters = append(encounters, encountersOf(games, names[a], a, b)...)
			for points, count := range CountPairs(games, names[a]) {
				pairs[a][points] += count
				pairs[b][4-points] += count
			}
		}
	}
	r := Rate(len(names), encounters)
	order := make([]int, len(names))
	for i := range players {
		order[i] = i
		p := &players[i]
		p.Elo, p.EloError, p.TooFew = r.Elo[i], finite(r.Error(i)), math.IsInf(r.Error(i), 1) || TooFewGames(pairs[i])
		p.Score /= float64(max(1, p.Games))
		p.Seconds /= float64(max(1, p.Moves))
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(r.Elo[b], r.Elo[a]) })
	t := Table{Games: len(games)}
	for i := range games {
		t.MeanPlies += float64(games[i].Plies) / float64(len(games))
	}
	for rank, i := range order {
		p := players[i]
		p.Rank = rank + 1
		t.Standings = append(t.Standings, p)
		for _, j := range order[rank+1:] {
			if games := met[[2]int{min(i, j), max(i, j)}]; games != nil {
				m := meeting(names[i], names[j], games)
				m.Elo, m.EloError, m.Superior = r.Difference(i, j)
				m.TooFew = math.IsInf(m.EloError, 1) || TooFewGames(m.Pairs)
				m.EloError = finite(m.EloError)
				t.Meetings = append(t.Meetings, m)
				t.Draws += m.Draws
			}
		}
	}
	t.DrawShare = float64(t.Draws) / float64(max(1, t.Games))
	return t
}

// Rating formats the player's Elo and its interval: "+120" and "±30", or "?" and "too few games".
func (s *Standing) Rating() (elo, interval string) {
	if s.TooFew {
		return "?", "too few games"
	}
	return fmt.Sprintf("%+.0f", math.Round(s.Elo)+0), fmt.Sprintf("±%.0f", s.EloError) // + 0 turns -0 into 0
}

func (s *Standing) count(points, seconds, longest float64, moves, late int32) {
	s.Games++
	switch points {
	case 1:
		s.Wins++
	case 0:
		s.Losses++
	default:
		s.Draws++
	}
	s.Score += points
	s.Seconds += seconds
	s.Longest = max(s.Longest, longest)
	s.Moves += int(moves)
	s.Late += int(late)
}

// encountersOf returns the results of player a, called name, against b on each opening, in the order of openings.
func encountersOf(games []Game, name string, a, b int) (all []Encounter) {
	openings := map[int32]Encounter{}
	for i := range games {
		e := openings[games[i].Opening]
		openings[games[i].Opening] = Encounter{A: a, B: b, Games: e.Games + 1, Points: e.Points + games[i].points(name)}
	}
	for _, opening := range slices.Sorted(maps.Keys(openings)) {
		all = append(all, openings[opening])
	}
	return all
}

// meeting returns the result of player a against b in these games.
func meeting(a, b string, games []Game) Meeting {
	m := Meeting{A: a, B: b, Games: len(games), Pairs: CountPairs(games, a)}
	for i := range games {
		switch games[i].points(a) {
		case 1:
			m.Wins++
		case 0:
			m.Losses++
		default:
			m.Draws++
		}
	}
	m.Score = (float64(m.Wins) + float64(m.Draws)/2) / float64(m.Games)
	return m
}

// finite returns x, or -1 if it is infinite, which JSON cannot express.
func finite(x float64) float64 {
	if math.IsInf(x, 0) {
		return -1
	}
	return x
}
