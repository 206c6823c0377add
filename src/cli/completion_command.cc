#include <algorithm>
#include <memory>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>

#include "cli/exit_codes.h"
#include "cli/session.h"

namespace onggi::cli {

namespace {

// What may follow some words of the command line: the same tree that the parser walks.
struct Place {
  std::string words;                                          // "vfolder create"; empty at the top
  std::vector<std::pair<std::string, std::string>> commands;  // name, help
  std::vector<std::pair<std::string, std::string>> options;
};

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

void collect_options(const CLI::App* app, Place& place) {
  for (const CLI::Option* option : app->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      place.options.emplace_back("--" + name, one_line(option->get_description()));
    }
    for (const std::string& name : option->get_snames()) {
      place.options.emplace_back("-" + name, one_line(option->get_description()));
    }
  }
}

void collect(const CLI::App* top, const CLI::App* app, const std::string& words,
             std::vector<Place>& places) {
  Place place{.words = words, .commands = {}, .options = {}};
  const auto subcommands = app->get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* sub : subcommands) {
    place.commands.emplace_back(sub->get_name(), one_line(sub->get_description()));
  }
  collect_options(app, place);
  if (app != top) collect_options(top, place);
  std::ranges::sort(place.options);
  const auto repeated =
      std::ranges::unique(place.options, {}, [](const auto& o) { return o.first; });
  place.options.erase(repeated.begin(), repeated.end());
  places.push_back(std::move(place));
  for (const CLI::App* sub : subcommands) {
    collect(top, sub, words.empty() ? sub->get_name() : words + " " + sub->get_name(), places);
  }
}

std::string names(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out;
  for (const auto& [name, help] : items) out += (out.empty() ? "" : " ") + name;
  return out;
}

std::string single_quoted(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) {
    text.replace(at, 1, "'\\''");
  }
  return "'" + text + "'";
}

// Remote paths complete by asking the daemon, quickly and silently.
constexpr std::string_view kBashHead =
    R"sh(# bash completion for onggi; put `eval "$(onggi completion bash)"` in ~/.bashrc
_onggi_remote() {
  local typed=${1#onggi:} parent
  typed=${typed#//}
  parent=${typed%/*}
  case $typed in
    */*/*) onggi ls "onggi://$parent" 2>/dev/null | sed "s|^|//$parent/|" ;;
    *) onggi ls 2>/dev/null | sed 's|^onggi:||; s|$|/|' ;;
  esac
}
_onggi() {
  local current=${COMP_WORDS[COMP_CWORD]} line=${COMP_LINE:0:COMP_POINT} words="" index commands="" options=""
  for ((index = 1; index < COMP_CWORD; index++)); do
    case ${COMP_WORDS[index]} in
      -*) ;;
      *) case " $words ${COMP_WORDS[index]} " in
)sh";

std::string bash_script(const std::vector<Place>& places) {
  std::string known;
  std::string table;
  for (const Place& place : places) {
    if (!place.words.empty()) {
      known += fmt::format(
          "           \" {} \" | \"  {} \") words=\"${{words:+$words }}"
          "${{COMP_WORDS[index]}}\" ;;\n",
          place.words, place.words);
    }
    table += fmt::format("    \"{}\") commands=\"{}\"; options=\"{}\" ;;\n", place.words,
                         names(place.commands), names(place.options));
  }
  return std::string(kBashHead) + known + "         esac ;;\n    esac\n  done\n  case $words in\n" +
         table +
         R"sh(  esac
  if [[ $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n $commands ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
  elif [[ ${line##* } == onggi:* ]]; then
    # bash splits words at the colon: what stands before it is already there.
    mapfile -t COMPREPLY < <(compgen -W "$(_onggi_remote "${line##* }")" -- "${line##* onggi:}")
    compopt -o nospace
  else
    compopt -o default
    COMPREPLY=()
  fi
}
complete -F _onggi onggi
)sh";
}

std::string zsh_items(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out;
  for (const auto& [name, help] : items) {
    std::string entry = name;
    for (std::size_t at = 0; (at = entry.find(':', at)) != std::string::npos; at += 2) {
      entry.insert(at, 1, '\\');
    }
    out += " " + single_quoted(help.empty() ? entry : entry + ":" + help);
  }
  return out;
}

std::string zsh_script(const std::vector<Place>& places) {
  std::string out =
      "#compdef onggi\n# zsh completion for onggi; put `eval \"$(onggi completion zsh)\"` in "
      "~/.zshrc\n_onggi() {\n  local typed=\"\" word\n  local -a commands options\n"
      "  for word in ${words[2,CURRENT-1]}; do\n    [[ $word == -* ]] && continue\n"
      "    case \"${typed:+$typed }$word\" in\n";
  for (const Place& place : places) {
    if (place.words.empty()) continue;
    out += fmt::format("      {}) typed={} ;;\n", single_quoted(place.words),
                       single_quoted(place.words));
  }
  out += "    esac\n  done\n  case $typed in\n";
  for (const Place& place : places) {
    out += fmt::format("    {}) commands=({}); options=({}) ;;\n", single_quoted(place.words),
                       zsh_items(place.commands), zsh_items(place.options));
  }
  return out +
         "  esac\n  if [[ $PREFIX == -* ]]; then\n    _describe option options\n"
         "  elif (( $#commands )); then\n    _describe command commands\n"
         "  else\n    _files\n  fi\n}\ncompdef _onggi onggi\n";
}

std::string fish_script(const std::vector<Place>& places) {
  std::string out =
      "# fish completion for onggi; `onggi completion fish | source` in config.fish\n";
  for (const Place& place : places) {
    std::string condition = "__fish_use_subcommand";
    if (!place.words.empty()) {
      condition.clear();
      std::string_view rest = place.words;
      while (!rest.empty()) {
        const std::string_view word = rest.substr(0, rest.find(' '));
        rest.remove_prefix(std::min(rest.size(), word.size() + 1));
        condition += (condition.empty() ? "" : "; and ") +
                     fmt::format("__fish_seen_subcommand_from {}", word);
      }
      if (!place.commands.empty()) {
        condition += fmt::format("; and not __fish_seen_subcommand_from {}", names(place.commands));
      }
    }
    for (const auto& [name, help] : place.commands) {
      out += fmt::format("complete -c onggi -f -n {} -a {} -d {}\n", single_quoted(condition), name,
                         single_quoted(help));
    }
    for (const auto& [name, help] : place.options) {
      const bool is_long = name.starts_with("--");
      out += fmt::format("complete -c onggi -n {} {} {} -d {}\n", single_quoted(condition),
                         is_long ? "-l" : "-s", name.substr(is_long ? 2 : 1), single_quoted(help));
    }
  }
  return out;
}

Result<int> print_completion(Session& session, const CLI::App* app, const std::string& shell) {
  std::vector<Place> places;
  collect(app, app, "", places);
  const std::string script = shell == "bash"  ? bash_script(places)
                             : shell == "zsh" ? zsh_script(places)
                                              : fish_script(places);
  session.print({{"shell", shell}, {"script", script}}, script);
  return kExitOk;
}

}  // namespace

void add_completion_command(CLI::App& app, Session& session) {
  CLI::App* command = app.add_subcommand("completion", "Print completion for a shell");
  // Lives as long as the command that fills and reads it.
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  session.on(command, [shell, &app](Session& s) { return print_completion(s, &app, *shell); });
}

}  // namespace onggi::cli
