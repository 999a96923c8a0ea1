package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/evald/evald/engine/game"
	"github.com/evald/evald/engine/heuristic"
	"github.com/evald/evald/engine/sample"
	"github.com/evald/evald/engine/score"
	"github.com/evald/evald/nn/open"
)

// scorePage is the page of --boards.
type scorePage struct {
	Command    string // the command line that writes this page
	Made       madeFiles
	Evaluators []string      // the measured evaluators, without bitsquares
	Reports    []namedReport // the columns; all have the same boards
}

// describe names an evaluator and how it computes.
func describe(e *open.Opened) string {
	name := e.Model
	if e.Version > 0 && !strings.Contains(name, "@") {
		name = fmt.Sprintf("%s@%d", name, e.Version)
	}
	return fmt.Sprintf("`%s` (%s)", name, threadsOf.ReplaceAllString(e.How, ""))
}

// threadsOf matches the number of threads in a description, which changes no figure.
var threadsOf = regexp.MustCompile(`, \d+ threads?\b`)

// measuredBy returns the distinct evaluators of subjects.
func measuredBy(subjects []subject) (names []string) {
	for _, s := range subjects {
		if s.by != "" && !slices.Contains(names, s.by) {
			names = append(names, s.by)
		}
	}
	return names
}

// again returns the command line that writes the page again. A pattern replaces the list of files, and --threads is left out, because it
// changes no figure.
func (c *scoreCmd) again(args []string) string {
	line, named := []string{"evald"}, false
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, "--threads=") || arg == "--threads" || i > 0 && args[i-1] == "--threads":
		case slices.Contains(c.Files, arg) && !valueOf(args, i):
			if !named {
				line = append(line, filePattern(c.Files)...)
			}
			named = true
		default:
			line = append(line, inShell(arg))
		}
	}
	return strings.Join(line, " ")
}

// valueOf reports whether args[i] is the value of a flag that takes a file.
func valueOf(args []string, i int) bool {
	return i > 0 && slices.Contains([]string{"--boards", "--plot", "-o", "--out", "--output", "--model"}, args[i-1])
}

// filePattern returns a shell pattern that matches exactly these files, or else their names.
func filePattern(files []string) (names []string) {
	folder, ext := filepath.Dir(files[0]), filepath.Ext(files[0])
	for _, p := range []string{
		filepath.Join(folder, "*"+ext),
		filepath.Join(filepath.Dir(folder), "*", filepath.Base(files[0])),
		filepath.Join(filepath.Dir(folder), "*", "*"+ext),
	} {
		found, err := filepath.Glob(p)
		if err == nil && len(files) > 1 && slices.Equal(found, slices.Sorted(slices.Values(files))) && plainWord.MatchString(strings.ReplaceAll(p, "*", "")) {
			return []string{p}
		}
	}
	for _, file := range files {
		names = append(names, inShell(file))
	}
	return names
}

// plainWord matches words that need no quotes in a shell.
var plainWord = regexp.MustCompile(`^[\w@%+=:,./-]+$`)

// inShell quotes a word for a shell if necessary.
func inShell(word string) string {
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// madeBy finds the command in the first line of a file of evald positions.
var madeBy = regexp.MustCompile(`evald positions --rules (\S+) --kinds (\S+) (.+)$`)

// madeFiles says with which commands files were made, according to their first lines.
type madeFiles struct {
	flags  []string                       // of evald positions besides --rules, --kinds and -o, in order of first appearance
	kinds  map[string]map[string][]string // by these flags and by game
	folder map[string]string              // of a game's files
}

// made reads the first lines of files.
func (s *scoreSet) made(files []string) (m madeFiles) {
	m.kinds, m.folder = map[string]map[string][]string{}, map[string]string{}
	for i, head := range s.heads {
		match := madeBy.FindStringSubmatch(head)
		if match == nil {
			continue
		}
		rules, kind, flags := match[1], match[2], match[3]
		if m.kinds[flags] == nil {
			m.kinds[flags], m.flags = map[string][]string{}, append(m.flags, flags)
		}
		m.kinds[flags][rules] = append(m.kinds[flags][rules], kind)
		m.folder[rules] = filepath.Dir(files[i])
	}
	return m
}

// kindsOf returns the sorted kinds of the files that some games have with the same flags.
func (m madeFiles) kindsOf(flags string, games []string) (kinds []string) {
	for _, rules := range games {
		kinds = append(kinds, m.kinds[flags][rules]...)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// commands returns the commands that made the files. Games with the same flags have one command for each named mix and one for all others.
func (m madeFiles) commands() (all []string) {
	for _, flags := range m.flags {
		for _, list := range mixesOf(slices.Collect(maps.Keys(m.kinds[flags]))) {
			folder := m.folder[list.games[0]]
			if len(list.games) > 1 {
				folder = filepath.Dir(folder)
			}
			command := "evald positions -o " + inShell(folder) + " --rules " + list.name
			if kinds := strings.Join(m.kindsOf(flags, list.games), ","); kinds != allKinds() {
				command += " --kinds " + kinds
			}
			all = append(all, command+" "+flags)
		}
	}
	return all
}

// missing lists the games without a file of a kind that others have, a line for each kind.
func (m madeFiles) missing() (lines []string) {
	for _, flags := range m.flags {
		games := slices.SortedFunc(maps.Keys(m.kinds[flags]), compareNames)
		for _, kind := range m.kindsOf(flags, games) {
			without := slices.DeleteFunc(slices.Clone(games), func(g string) bool { return slices.Contains(m.kinds[flags][g], kind) })
			if len(without) > 0 {
				lines = append(lines, fmt.Sprintf("No positions of %s play are measured of %s, and \"solved\" does not count them: there is no file. The command above makes none if the solver finishes none of them within its nodes.",
					kind, strings.Join(without, ", ")))
			}
		}
	}
	return lines
}

// allKinds returns the sorted kinds that evald positions makes by default.
func allKinds() string {
	var all []string
	for _, k := range sample.Kinds() {
		all = append(all, string(k))
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// gameList is a list of games and its text for --rules.
type gameList struct {
	name  string
	games []string
}

// compareNames is the order of games on the page.
func compareNames(a, b string) int {
	return cmp.Or(score.CompareRules(rulesNamed(a), rulesNamed(b)), cmp.Compare(a, b))
}

// mixesOf divides games into complete mixes with a name, and a list of the others.
func mixesOf(games []string) (lists []gameList) {
	left := slices.SortedFunc(slices.Values(games), compareNames)
	for _, named := range game.Mixes() {
		var of []string
		for _, rules := range mixRules(named.Name) {
			of = append(of, rules.String())
		}
		if slices.ContainsFunc(of, func(g string) bool { return !slices.Contains(left, g) }) {
			continue
		}
		lists = append(lists, gameList{named.Name, of})
		left = slices.DeleteFunc(left, func(g string) bool { return slices.Contains(of, g) })
	}
	if len(left) > 0 {
		lists = append(lists, gameList{strings.Join(left, ","), left})
	}
	return lists
}

// rulesNamed parses rules. It returns the zero Rules for any other text.
func rulesNamed(text string) game.Rules {
	rules, _ := game.ParseRules(text)
	return rules
}

// mixRules returns the games of a named mix.
func mixRules(name string) (all []game.Rules) {
	mix, err := game.ParseMix(name)
	if err != nil {
		panic(err) // its name stands in game.Mixes
	}
	for _, part := range mix {
		all = append(all, part.Rules)
	}
	return all
}

// unseenMix is the mix of the games that no shipped network was trained on.
const unseenMix = "unseen"

func (p *scorePage) write(w io.Writer) error {
	var t strings.Builder
	fmt.Fprintf(&t, "# Accuracy by board\n\nMeasured and written by\n\n    %s\n\n", p.Command)
	if made := p.Made.commands(); len(made) > 0 {
		fmt.Fprintf(&t, "with positions that were made by\n\n    %s\n\n", strings.Join(made, "\n    "))
	}
	fmt.Fprintf(&t, "The evaluator is %s.\n\n", strings.Join(p.Evaluators, ", "))
	t.WriteString(`Each cell has three rates in percent: good moves, which keep win, draw or loss; good moves over the critical positions alone,
where a move can worsen the result; and results foretold, for which the likeliest of win, draw and loss is the true one. "Solved" is the
percentage of the drawn positions that the solver finished within its nodes, in each third of the number of stones; the others are
not measured. Means are over games, which all have the same weight.
`)
	for _, line := range p.Made.missing() {
		fmt.Fprintf(&t, "\n%s\n", line)
	}
	seen, unseen := p.games()
	if len(seen) > 0 {
		t.WriteString("\n## Games\n\n")
		p.tables(&t, seen)
	}
	if len(unseen) > 0 {
		t.WriteString("\n## Games not learned from\n\nThe games of `--rules unseen`, from which the network `" + open.AnyModel + "` has not learned.\n\n")
		p.tables(&t, unseen)
	}
	if slices.ContainsFunc(append(seen, unseen...), p.replaced) {
		t.WriteString("\n\\* A heuristic answered some positions in place of the network.\n")
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// games returns the indices of the boards in the reports, in the order of the page.
func (p *scorePage) games() (seen, unseen []int) {
	held := mixRules(unseenMix)
	for i, b := range p.Reports[0].Boards {
		if slices.Contains(held, b.Rules) {
			unseen = append(unseen, i)
		} else {
			seen = append(seen, i)
		}
	}
	for _, some := range [][]int{seen, unseen} {
		slices.SortFunc(some, func(a, b int) int {
			return score.CompareRules(p.Reports[0].Boards[a].Rules, p.Reports[0].Boards[b].Rules)
		})
	}
	return seen, unseen
}

// replaced reports whether a heuristic answered some positions of a board in place of the network of the first report.
func (p *scorePage) replaced(board int) bool {
	return !heuristic.Is(p.Reports[0].Model) && p.Reports[0].Boards[board].Heuristic > 0
}

// tables writes the rows of games, their means, and the worst games.
func (p *scorePage) tables(w io.Writer, games []int) {
	p.head(w, "game", "positions", "solved")
	for _, i := range games {
		b := p.Reports[0].Boards[i]
		star := ""
		if p.replaced(i) {
			star = " \\*"
		}
		fmt.Fprintf(w, "| %s%s | %d | %s |", b.Name, star, b.Positions, solvedCell(b.Solved))
		for _, r := range p.Reports {
			fmt.Fprintf(w, " %s |", cell(rates(r.Boards[i].Summary)))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
	p.head(w, "mean of", "games")
	var groups [][]int
	for n, i := range games {
		if n == 0 || p.inARow(games[n-1]) != p.inARow(i) {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], i)
	}
	for _, group := range groups {
		p.means(w, fmt.Sprintf("%d in a row", p.inARow(group[0])), group)
	}
	if len(groups) > 1 {
		p.means(w, "all", games)
	}
	fmt.Fprintln(w)
	p.head(w, "worst game")
	for k, name := range []string{"good moves", "good, critical", "results"} {
		fmt.Fprintf(w, "| %s |", name)
		for _, r := range p.Reports {
			fmt.Fprintf(w, " %s |", worst(r.Boards, games, k))
		}
		fmt.Fprintln(w)
	}
}

func (p *scorePage) inARow(board int) int { return p.Reports[0].Boards[board].Rules.InARow }

// head writes the first two lines of a table with the given columns and one for each report.
func (p *scorePage) head(w io.Writer, columns ...string) {
	for _, r := range p.Reports {
		columns = append(columns, r.Model)
	}
	fmt.Fprintf(w, "| %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
}

// means writes a row of means over games.
func (p *scorePage) means(w io.Writer, name string, games []int) {
	fmt.Fprintf(w, "| %s | %d |", name, len(games))
	for _, r := range p.Reports {
		var means [3]score.Mean
		for k := range means {
			sum, n := 0., 0
			for _, i := range games {
				if rate := rates(r.Boards[i].Summary)[k]; rate != (score.Mean{}) {
					sum, n = sum+rate.Value, n+1
				}
			}
			if n > 0 {
				means[k] = score.Mean{Value: sum / float64(n), High: 1} // the zero Mean would stand for no rate
			}
		}
		fmt.Fprintf(w, " %s |", cell(means))
	}
	fmt.Fprintln(w)
}

// rates returns the three rates of a cell. A missing rate is the zero Mean.
func rates(s score.Summary) [3]score.Mean {
	return [3]score.Mean{s.Good, s.CriticalGood, s.ValueSign}
}

func cell(rates [3]score.Mean) string {
	var texts []string
	for _, rate := range rates {
		texts = append(texts, rateText(rate))
	}
	return strings.Join(texts, " / ")
}

func rateText(rate score.Mean) string {
	if rate == (score.Mean{}) {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*rate.Value)
}

// worst returns the lowest value of one of the three rates over the games, with its game.
func worst(boards []score.Board, games []int, rate int) string {
	at := -1
	for _, i := range games {
		if one := rates(boards[i].Summary)[rate]; one != (score.Mean{}) && (at < 0 || one.Value < rates(boards[at].Summary)[rate].Value) {
			at = i
		}
	}
	if at < 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", rateText(rates(boards[at].Summary)[rate]), boards[at].Name)
}

// solvedCell returns the percentage of drawn positions that were solved, for each third of the numbers of stones.
func solvedCell(thirds []score.Solved) string {
	if thirds == nil {
		return "all"
	}
	var texts []string
	for _, t := range thirds {
		text := "-"
		if t.Drawn > 0 {
			text = fmt.Sprintf("%.0f", 100*float64(t.Solved)/float64(t.Drawn))
			if text == "100" && t.Solved < t.Drawn {
				text = "99" // not all
			}
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, " / ")
}
