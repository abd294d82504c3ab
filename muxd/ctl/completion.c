/*
 * muxctl completion: a script for the shell, whose every question goes to muxctl itself (complete.h). The scripts know
 * no command and no option; `make install` puts them where the shells look.
 */
#include "muxd/ctl/complete.h"
#include "muxd/ctl/nouns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char bash_script[] =
    "# bash completion for muxctl; made by: muxctl completion script bash\n"
    "_muxctl() {\n"
    "\tlocal line=${COMP_LINE:0:COMP_POINT} last word help\n"
    "\tlocal -a words\n"
    "\tread -r -a words <<<\"$line\"\n"
    "\t[[ $line == *[[:space:]] ]] && words+=(\"\")\n"
    "\tlast=${words[${#words[@]} - 1]}\n"
    "\tCOMPREPLY=()\n"
    "\twhile IFS=$'\\t' read -r word help; do\n"
    "\t\tif [[ $word == :files ]]; then\n"
    "\t\t\tcompopt -o default\n"
    "\t\t\treturn\n"
    "\t\tfi\n"
    "\t\t# Readline has cut the word behind its =, where that is one of COMP_WORDBREAKS.\n"
    "\t\t[[ $last == *=* && $COMP_WORDBREAKS == *=* ]] && word=${word#\"${last%%=*}=\"}\n"
    "\t\tCOMPREPLY+=(\"$word\")\n"
    "\tdone < <(\"${1/#\\~/$HOME}\" completion words -- \"${words[@]:1}\" 2>/dev/null)\n"
    "}\n"
    "complete -F _muxctl muxctl\n";

static const char zsh_script[] = "#compdef muxctl\n"
				 "# zsh completion for muxctl; made by: muxctl completion script zsh\n"
				 "_muxctl() {\n"
				 "\tlocal -a found\n"
				 "\tlocal line\n"
				 "\tfor line in \"${(@f)$(${(Q)words[1]/#\\~/$HOME} completion words -- "
				 "\"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\"; do\n"
				 "\t\t[[ -z $line ]] && continue\n"
				 "\t\tif [[ $line == :files ]]; then\n"
				 "\t\t\t_files\n"
				 "\t\t\treturn\n"
				 "\t\tfi\n"
				 "\t\tfound+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\")\n"
				 "\tdone\n"
				 "\t(( $#found )) && _describe -t words muxctl found\n"
				 "}\n"
				 "if [[ $funcstack[1] == _muxctl ]]; then\n"
				 "\t_muxctl \"$@\"\n"
				 "else\n"
				 "\tcompdef _muxctl muxctl\n"
				 "fi\n";

static const char fish_script[] = "# fish completion for muxctl; made by: muxctl completion script fish\n"
				  "function __muxctl_words\n"
				  "\tset -l words (commandline -opc)\n"
				  "\tset -l last (commandline -ct)\n"
				  "\tset -l found ($words[1] completion words -- $words[2..-1] \"$last\" 2>/dev/null)\n"
				  "\tif test \"$found\" = :files\n"
				  "\t\t__fish_complete_path \"$last\"\n"
				  "\telse\n"
				  "\t\tprintf '%s\\n' $found\n"
				  "\tend\n"
				  "end\n"
				  "complete -c muxctl -f -a '(__muxctl_words)'\n";

static const struct shell {
	const char *name, *script;
} shells[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

static int print(const char *text)
{
	return fputs(text, stdout) < 0 || fflush(stdout) ? err_exit_code(ERR_SYS) : 0;
}

static int run_script(struct ctl *c, const struct ctl_args *a)
{
	const char *wanted = a->operands[0];
	struct err e = {0};

	for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (strcmp(shells[i].name, wanted) == 0)
			return print(shells[i].script);
	err_set(&e, ERR_INVAL, "no completion for the shell \"%.40s\": bash, zsh and fish have one", wanted);
	return ctl_fail(c, &e);
}

static int run_words(struct ctl *c, const struct ctl_args *a)
{
	char *text = complete_words(c->commands, (int)a->noperands, a->operands);
	struct err e = {0};

	if (!text) {
		err_set(&e, ERR_NOMEM, "no memory for the words");
		return ctl_fail(c, &e);
	}
	int status = print(text);
	free(text);
	return status;
}

const struct ctl_command completion_commands[] = {
    {"completion script", "bash|zsh|fish", 1, 1, "Print a script that lets a shell complete muxctl's command lines.",
     .run = run_script, .more = "For one shell: . <(muxctl completion script bash)\n"},
    {"completion words", "[--] WORD...", 0, -1, "Print what the last of the words may become; such scripts ask it.",
     .run = run_words, .any_bytes = true},
    {0},
};
