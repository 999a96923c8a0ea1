package diagram

// Glyphs are strokes on a grid of 5 columns, 0 to 4 from the left, and 9 rows, 0 to 8 from the top; row 6 is the baseline. A stroke is a list
// of points joined by lines, each point written as its column and row; a single point is a dot.
var glyphs = map[byte][]string{
	'0': {"1030414536160501" + "10"}, '1': {"022026", "0646"}, '2': {"01103041420646"}, '3': {"01103041423313", "33444536160" + "5"},
	'4': {"36300444"}, '5': {"400002324345361605"}, '6': {"40100105163645443303"}, '7': {"004016"},
	'8': {"33130201103041423344453616050413"}, '9': {"43130201103041453616"},

	'a': {"12324346", "4414051646"}, 'b': {"00063645433202"}, 'c': {"421203051646"}, 'd': {"40461605031242"},
	'e': {"0444433212030516" + "46"}, 'f': {"41302116", "0333"}, 'g': {"421203041545", "42473808"}, 'h': {"0006", "02324346"},
	'i': {"2226", "20"}, 'j': {"32372818", "30"}, 'k': {"0006", "4204", "1346"}, 'l': {"102026", "1636"},
	'm': {"0602122326", "23324346"}, 'n': {"06023243" + "46"}, 'o': {"12324345361605" + "0312"}, 'p': {"080232434536" + "06"},
	'q': {"484212030516" + "46"}, 'r': {"0602", "031242"}, 's': {"4212031434453606"}, 't': {"20253646", "0242"},
	'u': {"02051646", "4642"}, 'v': {"022642"}, 'w': {"0216233642"}, 'x': {"0246", "4206"}, 'y': {"02051646", "42473808"}, 'z': {"02420646"},
}

// write returns the strokes of a text centred on a point. height is the height of a digit. A text of more than two characters is narrower.
func write(text string, x, y, height float64, colour uint32) (all []shape) {
	unit := height / 6
	across := unit
	if len(text) > 2 {
		across = unit * 2 / 3
	}
	const advance = 6 // columns from one character to the next
	left := x - across*float64(advance*len(text)-2)/2
	for i := range len(text) {
		for _, points := range glyphs[text[i]] {
			s := stroke{width: unit * 0.95, colour: colour}
			for j := 0; j < len(points); j += 2 {
				s.points = append(s.points, point{left + across*float64(advance*i+int(points[j]-'0')), y + unit*(float64(points[j+1]-'0')-3)})
			}
			all = append(all, s)
		}
	}
	return all
}
