# Marks of an inner shell that has no hooks (dash, busybox, ksh, an old bash): its prompt carries them. A statement a
# line: the lines are joined and typed as one. Shells with a line editor count the width of their prompt. Not every
# busybox tells its version; its `help` names it.
__steplatch_l= __steplatch_r= __steplatch_n=0
case "${BB_ASH_VERSION-}${BASH_VERSION-},$(\help 2>/dev/null)" in [0-9]*|*"Built-in commands"*) __steplatch_l="\[" __steplatch_r="\]";; esac
PS1="$__steplatch_l$(\command printf "\033]133;D;")\$?$(\command printf ";k=KEY;n=")\$((__steplatch_n=__steplatch_n+1))$(\command printf "\007\033]133;A;k=KEY\007\033]7;file://")\$PWD$(\command printf "\007")$__steplatch_r$PS1$__steplatch_l$(\command printf "\033]133;B;k=KEY\007")$__steplatch_r"
PS2="$__steplatch_l$(\command printf "\033]133;P;k=s;k=KEY;n=")\$((__steplatch_n=__steplatch_n+1))$(\command printf "\007")$__steplatch_r$PS2"
