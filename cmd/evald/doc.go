// Command evald evaluates ConnectX positions in large batches.
//
// Each file has the subcommand of its name, except files that several commands use. Read them in this order:
//
//	main.go, flags.go, configfile.go         the commands, checks of all flags, flags from a file
//	help.go, completion.go                   help, version, the manual page; shells
//	progress.go, lines.go, memory.go         the terminal's last line; lines of input; sizes of memory
//	parts.go                                 parts of a file of lines, for many processes
//	backend.go                               the evaluator that flags choose, here or at a service
//	trials.go                                processes that try an ONNX file, or kernels of a GPU, before others use them
//	games.go                                 the games of --rules, their folders and files
//	agents.go                                networks and books of agents, each loaded once
//	eval.go, search.go, analyze.go           answers for lines of positions, and for a script's queries
//	solve.go                                 exact scores and books of them
//	positions.go, positionsrecords.go        sets of positions with exact scores, and records of them
//	puzzles.go                               puzzles: positions that one move alone holds
//	merge.go                                 records of exact results, each position once
//	buckets.go, copies.go                    records in buckets: reading them, and copies of finished files there
//	score.go, scoreall.go, scorerows.go      accuracy of an evaluator; over all positions of a game; a row for each position
//	searchtree.go                            the tree of a search as a file
//	play.go, show.go, page.go                games on the terminal; pictures of positions; the page without a server
//	match.go, matchtable.go                  matches, their table
//	matchtune.go                             constants of searches, by games
//	growbook.go                              an agent's games against itself, for an opening book
//	prove.go                                 an agent against every play
//	kaggle.go                                Kaggle
//	selfplay.go, cluster.go                  self-play, here and on many machines
//	runflags.go                              flags of resumed runs
//	train.go, lessons.go, traintables.go     training of both kinds of networks, of one game or several
//	learn.go                                 the whole loop
//	model.go, modelint8.go                   networks by name; networks in 8 bits
//	library.go, libraryprogram.go            the program as a library, for Python (build tag library), which can be started too
//	libraryserve.go                          the same calls over a pipe, on systems without the library
//	serve.go, servelog.go, logqueue.go       the service, its log
//	serveaccess.go                           its certificates and tokens, and which files a reload reads
//	servemodels.go, modelsfile.go            its models and their settings; the file of them
//	mcp.go                                   tools for language models; mcp.yaml is what they read of them
//	bench.go, benchserve.go, devices.go      measurements, also of the service; processors and GPUs
//	first.go                                 the program of make run, which lacks what trains and serves
package main
