_evald() {
  local IFS=$'\n' word
  COMPREPLY=()
  for word in $("$1" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
    if [[ $word == :files ]]; then
      compopt -o default
    else
      COMPREPLY+=("${word%%$'\t'*}")
    fi
  done
}
complete -F _evald evald
