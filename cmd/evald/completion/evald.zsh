#compdef evald
_evald() {
  local -a lines
  lines=("${(@f)$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ ${lines[1]} == :files ]]; then
    _files
  else
    lines=("${(@)lines//:/\\:}")
    lines=("${(@)lines//$'\t'/:}")
    _describe evald lines
  fi
}
if [[ $funcstack[1] == _evald ]]; then _evald; else compdef _evald evald; fi
