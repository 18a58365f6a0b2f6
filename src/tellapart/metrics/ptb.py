"""The tokeniser of the caption metrics: the tokens of pycocoevalcap's `PTBTokenizer` without Java.

BLEU, ROUGE-L and CIDEr depend on tokens, so captions must be cut exactly as for the published numbers:
`edu.stanford.nlp.process.PTBTokenizer -preserveLines -lowerCase` of Stanford CoreNLP 3.4.1, then a list of punctuation
is dropped. The rules below are our regular expressions, checked by probing that program.

How it works: at each place the longest match of all rules is taken, the first rule among equals; a rule may look beyond
    its token, and the characters it looked at count towards its length. Between blanks nothing depends on the
neighbours but for a few rules, so pieces are cut once and remembered.

Covered: words and accents, contractions (`can't` -> `ca n't`, `cannot` -> `can not`, `dog's` -> `dog 's`), words with
an inner or leading apostrophe (`o'clock`, `rock 'n' roll`, `'90s`), hyphens and slashes, numbers, mixed fractions (`3
1/2` is one token, its blank a no-break space), money, dates, telephone numbers, abbreviations and initials, URLs, file
names, e-mail, tags of markup, hashtags, handles, faces, quotes, brackets (`(` -> `-lrb-`), dots and dashes, the
entities of markup in any case (`&AMP;`, `&Nbsp;`, `&eacute;`), the Unicode classes of `ptb_characters`.

The tokens are identical on 355,557 distinct strings of the annotation files that the tests read, on
`tests/metrics/ptb_golden.jsonl`, and on 477,811 drawn strings of signs, entities, addresses and numbers run together
(`tests/metrics/ptb_drawn.json`). Other runs may differ: such tests found a few before each mend.

Not covered: entities in capitals right behind capitals (`BE&Apos;`, where the program reads a name, `BE&A`), entities
inside telephone numbers, quotes written as entities inside tags, and soft hyphens next to signs.

Known differences, all deliberate: the program reads a corpus as one text, so that a caption that ends in `no.` or in an
initial is cut differently when the next caption begins with a digit or a capital; here a caption is cut as if nothing
followed it, and no result depends on the order of the captions. A line separator other than a line feed would shift the
program's lines against the captions; here it is a blank.

Kept on purpose: `-lrb-` and `-rrb-` stay in (the list of punctuation has them in capitals), as do `!!`, `?!` and
`-----`.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache

# The character classes of the PTB tokeniser beyond ASCII: letters, digits, marks and symbols.
#
# The Java lexer has these tables built in, so they belong to no Unicode version of the Python that runs (`str.isalpha`
# differs from them on about a thousand characters). Each table was measured: every character from U+0080 to U+FFFF was
# sent through the lexer alone, between letters and between digits. What is in no table, and everything above U+FFFF
# (emoji among them), is dropped by the lexer and ends a token like a blank.

_LETTERS = """
    aa b5 ba c0-d6 d8-f6 f8-2c1 2c6-2d1 2e0-2e4 2ec 2ee 370-374 376-377 37a-37d 386 388-38a 38c 38e-3a1 3a3-3f5
    3f7-481 48a-527 531-556 559 561-587 5d0-5ea 5f0-5f2 620-64a 66e-66f 671-6d3 6d5 6e5-6e6 6ee-6ef 6fa-6fc 6ff
    710 712-72f 74d-7a5 7b1 7ca-7ea 7f4-7f5 7fa 800-815 81a 824 828 840-858 8a0 8a2-8ac 904-939 93d 950 958-961
    971-977 979-97f 985-98c 98f-990 993-9a8 9aa-9b0 9b2 9b6-9b9 9bd 9ce 9dc-9dd 9df-9e1 9f0-9f1 a05-a0a a0f-a10
    a13-a28 a2a-a30 a32-a33 a35-a36 a38-a39 a59-a5c a5e a72-a74 a85-a8d a8f-a91 a93-aa8 aaa-ab0 ab2-ab3 ab5-ab9
    abd ad0 ae0-ae1 b05-b0c b0f-b10 b13-b28 b2a-b30 b32-b33 b35-b39 b3d b5c-b5d b5f-b61 b71 b83 b85-b8a b8e-b90
    b92-b95 b99-b9a b9c b9e-b9f ba3-ba4 ba8-baa bae-bb9 bd0 c05-c0c c0e-c10 c12-c28 c2a-c33 c35-c39 c3d c58-c59
    c60-c61 c85-c8c c8e-c90 c92-ca8 caa-cb3 cb5-cb9 cbd cde ce0-ce1 cf1-cf2 d05-d0c d0e-d10 d12-d3a d3d d4e
    d60-d61 d7a-d7f d85-d96 d9a-db1 db3-dbb dbd dc0-dc6 e01-e30 e32-e33 e40-e46 e81-e82 e84 e87-e88 e8a e8d
    e94-e97 e99-e9f ea1-ea3 ea5 ea7 eaa-eab ead-eb0 eb2-eb3 ebd ec0-ec4 ec6 edc-edf f00 f40-f47 f49-f6c f88-f8c
    1000-102a 103f 1050-1055 105a-105d 1061 1065-1066 106e-1070 1075-1081 108e 10a0-10c5 10c7 10cd 10d0-10fa
    10fc-1248 124a-124d 1250-1256 1258 125a-125d 1260-1288 128a-128d 1290-12b0 12b2-12b5 12b8-12be 12c0
    12c2-12c5 12c8-12d6 12d8-1310 1312-1315 1318-135a 1380-138f 13a0-13f4 1401-166c 166f-167f 1681-169a
    16a0-16ea 1700-170c 170e-1711 1720-1731 1740-1751 1760-176c 176e-1770 1780-17b3 17d7 17dc 1820-1877
    1880-18a8 18aa 18b0-18f5 1900-191c 1950-196d 1970-1974 1980-19ab 19c1-19c7 1a00-1a16 1a20-1a54 1aa7
    1b05-1b33 1b45-1b4b 1b83-1ba0 1bae-1baf 1bba-1be5 1c00-1c23 1c4d-1c4f 1c5a-1c7d 1ce9-1cec 1cee-1cf1
    1cf5-1cf6 1d00-1dbf 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d 1f80-1fb4
    1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc 2071 207f 2090-209c
    2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2139 213c-213f 2145-2149 214e 2183-2184
    2c00-2c2e 2c30-2c5e 2c60-2ce4 2ceb-2cee 2cf2-2cf3 2d00-2d25 2d27 2d2d 2d30-2d67 2d6f 2d80-2d96 2da0-2da6
    2da8-2dae 2db0-2db6 2db8-2dbe 2dc0-2dc6 2dc8-2dce 2dd0-2dd6 2dd8-2dde 2e2f 3005-3006 3031-3035 303b-303c
    3041-3096 309d-309f 30a1-30fa 30fc-30ff 3105-312d 3131-318e 31a0-31ba 31f0-31ff 3400-4db5 4e00-9fcc
    a000-a48c a4d0-a4fd a500-a60c a610-a61f a62a-a62b a640-a66e a67f-a697 a6a0-a6e5 a717-a71f a722-a788
    a78b-a78e a790-a793 a7a0-a7aa a7f8-a801 a803-a805 a807-a80a a80c-a822 a840-a873 a882-a8b3 a8f2-a8f7 a8fb
    a90a-a925 a930-a946 a960-a97c a984-a9b2 a9cf aa00-aa28 aa40-aa42 aa44-aa4b aa60-aa76 aa7a aa80-aaaf aab1
    aab5-aab6 aab9-aabd aac0 aac2 aadb-aadd aae0-aaea aaf2-aaf4 ab01-ab06 ab09-ab0e ab11-ab16 ab20-ab26
    ab28-ab2e abc0-abe2 ac00-d7a3 d7b0-d7c6 d7cb-d7fb f900-fa6d fa70-fad9 fb00-fb06 fb13-fb17 fb1d fb1f-fb28
    fb2a-fb36 fb38-fb3c fb3e fb40-fb41 fb43-fb44 fb46-fbb1 fbd3-fd3d fd50-fd8f fd92-fdc7 fdf0-fdfb fe70-fe74
    fe76-fefc ff21-ff3a ff41-ff5a ff66-ffbe ffc2-ffc7 ffca-ffcf ffd2-ffd7 ffda-ffdc
"""

_DIGITS = """
    660-669 6f0-6f9 7c0-7c9 966-96f 9e6-9ef a66-a6f ae6-aef b66-b6f be6-bef c66-c6f ce6-cef d66-d6f e50-e59
    ed0-ed9 f20-f29 1040-1049 1090-1099 17e0-17e9 1810-1819 1946-194f 19d0-19d9 1a80-1a89 1a90-1a99 1b50-1b59
    1bb0-1bb9 1c40-1c49 1c50-1c59 a620-a629 a8d0-a8d9 a900-a909 a9d0-a9d9 aa50-aa59 abf0-abf9 ff10-ff19
"""

_MARKS = """
    2c2-2c5 2d2-2df 2e5-2eb 2ed 2ef-36f 375 378-379 384-385 3f6 483-487 55a-55f 591-5bd 5bf 5c1-5c2 5c4-5c5 5c7
    615-61a 64b-65e 670 6d6-6e4 6e7-6ed 6fd-6fe 70f 711 730-74c 7a6-7b0 7eb-7f3 900-903 93c 93e-94e 951-955
    962-963 981-983 9bc 9be-9c4 9c7-9c8 9cb-9cd 9d7 9e2-9e3 a01-a03 a3c a3e-a4f a81-a83 abc abe-acf b82 bbe-bc2
    bc6-bc8 bca-bcd c01-c03 c3e-c56 d3e-d44 d46-d48 e31 e34-e3a e47-e4e eb1 eb4-ebc ec8-ecd
"""

_SYMBOLS = """
    a1 a5-a9 ac ae-b4 b6-b9 bf d7 f7 37e 387 589 5be 5c0 5c3 5c6 5f3-5f4 600-603 606-60c 614 61b 61e-61f 66a 66d
    6d4 700-70d 7f6-7f8 964-965 e3f e4f 1fbd 2016-2017 201a 201e-2023 2030-2038 203b 203e-2042 2044 2070
    2074-207e 2080-208e 20a4 2100-2101 2103-2106 2108-2109 2114 2116-2118 211e-2123 2125 2127 2129 212e
    213a-213b 2140-2144 214a-214d 214f 2155-215e 2190-2bff 3001-3002 3012 30fb ff01-ff0f ff1a-ff20 ff3b-ff40
    ff5b-ff65 ffe0-ffe1 ffe5-ffe6
"""


def _character_class(ranges: str) -> str:
    """Turn hexadecimal ranges into the inside of a regular expression's brackets."""
    bounds = (part.partition("-") for part in ranges.split())
    return "".join(
        rf"\u{int(first, 16):04x}" + (rf"-\u{int(last, 16):04x}" if last else "") for first, _, last in bounds
    )


LETTERS = "A-Za-z" + _character_class(_LETTERS)
"""Letters, for use inside the brackets of a regular expression."""

DIGITS = "0-9" + _character_class(_DIGITS)
"""Decimal digits of the scripts that the lexer knows."""

MARKS = _character_class(_MARKS)
"""Combining marks and modifiers, which continue or begin a word but join no number, hyphen or hashtag."""

SYMBOLS = _character_class(_SYMBOLS)
"""Signs that are a token each."""


_DROPPED = frozenset(("''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"))

# Abbreviations whose full stop is always theirs, and those that usually end something.
_TITLES = """
adj adm adv alex assoc asst atty ave brig capt cf cie cmdr col comdr cpl d dept det dr drs ens ft gen gov govs hon
insp jos lieut lt maj messrs mlle mme mr mrs ms msgr mt natl pfc ph pres prof pvt rep reps rev sen sens sfc sgt st
ste supt treas vs wm
"""
_ENDINGS = """
al ala apr ariz assn aug bhd bldg blvd bros calif co colo conn corp cos ct dak dec esq est etc ext feb fla fri ga
inc ind intl jan jr jul jun kan kans ky ltd mar md mich minn mo mon mont neb nev nov oct okla penn plc rd rt sep
sept seq sq sr tel tenn thu thurs tue tues univ va vt wed wis wisc wyo
"""
_CAPITALISED_ENDINGS = "Ark Del Ill La Mass Miss Ore Pa Tex Wash"
_BEFORE_NUMBERS = "no nos fig figs art ca op pp prop"
# After an initial, these begin a new sentence and not a surname.
_SENTENCE_STARTS = r"""
A About According Additionally After An As At But Earlier He Her Here However If In It Last Many More Mr\. Ms\. Now Once
One Other Our She Since So Some Such That The Their Then There These They This We What When While Yet You
"""
_FILES = """
jpg jpeg png gif bmp txt doc docx pdf ppt xml html htm php py c h cpp java class jar bat exe dll zip gz tar mp3 wav mov
pl sql ps cgi x
"""


def _any_of(words: str, *, capital: bool = False) -> str:
    """Return the alternatives of a regular expression: the words, or if asked in any case after their first letter."""
    return "|".join(f"{word[0]}(?i:{word[1:]})" if capital else word for word in words.split())


# Entities of markup are put into the text as private characters, one each, which no caption holds: the program
# reads `&apos;` as an apostrophe, but not everywhere; and all but the common ones it writes out again.
_QUOT_ENTITY, _AMP_ENTITY, _ACCENTS = "\ue000", "\ue001", "\ue010-\ue01e"
_NBSP_ENTITY = "\ue004"  # in no rule, as if the program did not know it: dropped, and no token goes on behind it
_DASH_ENTITIES = {"&md;": "\ue005", "&mdash;": "\ue006", "&ndash;": "\ue007"}  # likewise; an address keeps them
_PLAIN_QUOT_ENTITY = "\ue008"  # in lower case: a double quote, but in an address
_SIGN_ENTITIES = _QUOT_ENTITY + _PLAIN_QUOT_ENTITY + _AMP_ENTITY
_ENTITY_MARKS = f"\ue000-\ue008{_ACCENTS}"  # each is several characters of an address
_APOS_ENTITIES = "\ue002\ue003"  # the one in lower case, and in any other
_ACCENTED = {
    f"&{letter}{accent};": chr(0xE010 + 3 * row + column)
    for row, letter in enumerate("aeiou")
    for column, accent in enumerate(("acute", "grave", "uml"))
}
_WRITTEN_OUT = {
    **{_QUOT_ENTITY: "&quot;", _AMP_ENTITY: "&amp;", _NBSP_ENTITY: "&nbsp;"},
    **dict.fromkeys(_APOS_ENTITIES, "&apos;"),
    **{mark: entity for entity, mark in _DASH_ENTITIES.items()},
    _PLAIN_QUOT_ENTITY: "&quot;",
    **{mark: entity for entity, mark in _ACCENTED.items()},
}

_A = "A-Za-z"
_AD = "A-Za-z0-9"
_D = DIGITS + "\xad"  # a soft hyphen is inside words and numbers, and not written
_L = LETTERS
_LD = LETTERS + DIGITS
_LM = LETTERS + MARKS + _ACCENTS + "\xad"
_LMD = _LM + DIGITS
_QUOTES = "`\u2018\u2019\u201b\u201c\u201d\u2039\u203a\xab\xbb\x91-\x94"
_APOS = f"['\u2019\x92{_APOS_ENTITIES}]"
_APOS_OR_TICK = f"['\u2019\x92`\u2018\x91\u201b{_APOS_ENTITIES}]"

_WORD = rf"[{_LM}][{_LMD}]*(?:[.!?][{_LM}][{_LMD}]*)*"
_ELIDED = rf"(?:[dDoOlL]{_APOS_OR_TICK}(?=[{_LD}]{{2}}))?"
_JOINED = rf"{_ELIDED}[{_LD}]+(?:[-\u058a\u2010\u2011_]{_ELIDED}[{_LD}]+)*"
_NAMES = rf"[A-Z]+(?:[+&{_AMP_ENTITY}][A-Z]+)+"
_INITIALS = rf"[{_A}](?:\.[{_A}])+"
_NUMBER = rf"[{_D}]*(?:[.,:\u066b\u066c][{DIGITS}][{_D}]*)+|[{_D}]+"
_AUXILIARY = "(?:[sdmSDM]|[rR][eE]|[vV][eE]|[lL][lL])"
_SLASHED = rf"[{_AD}]+(?:-[{_A}]+){{0,2}}"
_TAG_NAME = r"[A-Za-z][A-Za-z0-9_:.-]*"
_ATTRIBUTE = r"[A-Za-z_:][A-Za-z0-9_:.-]*(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'))?"
_TAG = rf"(?:<[!?][A-Za-z-][^>]*>|</{_TAG_NAME}\s*>|<{_TAG_NAME}(?:\s+{_ATTRIBUTE})*\s*/?>)"
# The characters of an address and those at its end, as ranges: each ASCII character was tried in each place.
_ADDRESS = "!#-'*-;=?-z~\x80-\U0010ffff"
_ADDRESS_END = "#-'*+/-;=@-z~\x80-\U0010ffff"
# An entity ends in a semicolon, which no label holds: "&amp;www.a.com" is a sign and an address.
_HOST_LABEL = "a-z#%&*+~\x80-\udfff\ue009-\ue00f\ue01f-\U0010ffff"
_MAIL = r"!#-'*-,\-/-;=?-z~\x80-\x9f\xa1-\U0010ffff"
_HOST = rf"(?:(?i:www)(?:\.[-{_ADDRESS_END}]+)+\.[{_A}]{{2,4}}|(?:[{_HOST_LABEL}]+\.)+(?i:com|net|org|edu))"
_TWO_MORE = rf"(?:[^{_ACCENTS}][\s\S])?"  # not a letter that goes on with the word, and is several characters there
_DIGIT_GROUP = "[0-9]{2,4}[ \xa0-]"

# Group 1 is the token; a rule's match beyond it is looked at, counted, and left for the next token.
_RULES = (
    # Two words written as one come before words: among equally long matches the first rule wins.
    rf"((?i:can))(?i:not)(?![{_AD}])",
    rf"((?i:gon|wan))(?i:na)(?![{_AD}])",
    rf"((?i:got))(?i:ta)(?![{_AD}])",
    rf"((?i:gim|lem))(?i:me)(?![{_AD}])",
    rf"({_WORD})",
    rf"({_JOINED})",
    rf"({_SLASHED}(?:\\?/{_SLASHED}){{1,2}})",
    # Contractions. Before n't the word must not end in another n.
    rf"([{_A}]*[A-MO-Za-mo-z]|[{_A}][{_A}\xad]*\xad)[nN]{_APOS_OR_TICK}[tT]",
    rf"([nN]{_APOS_OR_TICK}[tT])(?![{_A}])",
    rf"({_WORD}|{_JOINED}){_APOS}{_AUXILIARY}",
    rf"('{_AUXILIARY})(?![{_A}])",
    rf"([\u2019\x92{_APOS_ENTITIES}]{_AUXILIARY})",
    "('[tT])(?i:is|was)",
    # Words with an inner or leading apostrophe.
    rf"([yY]{_APOS})[{_L}]",
    rf"([dDjJlL]{_APOS})",
    rf"({_APOS}[nN]{_APOS})",
    r"('[nN])(?=\s)",
    rf"([\u2019\x92{_APOS_ENTITIES}][nN])",
    rf"({_APOS}(?i:em|till?|cause))",
    rf"({_APOS}[2-9]0[sS])",
    rf"({_APOS}[0-9][0-9])(?=\s)",
    rf"([A-HJ-XZn]{_APOS_OR_TICK}[{_L}]{{2,}})",
    rf"([{_L}]+[aeiouyAEIOUY]{_APOS_OR_TICK}[aeiouA-Z][{_L}]*)",
    "((?i:c'mon|c'est|cap'n|e'er|s'mores|ev'ry|li'l|nat'l|nor'easter|o'o))",
    "((?i:ol|somethin|dunkin)['\u2019])",
    # E-mail comes before abbreviations, and these before hyphens.
    rf"((?:<|&(?i:lt);)?[{_AD}][.{_MAIL}]*@[{_MAIL}]+(?:\.[{_MAIL}]+)*(?:>|&(?i:gt);)?)",
    rf"([{_A}]\.)",
    rf"([{_A}])\.\s+(?:{_any_of(_SENTENCE_STARTS, capital=True)}|{_TAG})\s",
    rf"({_INITIALS}\.)",
    rf"((?:[pP][hH]|[eE][dD])\.[dD]\.){_TWO_MORE}",
    rf"((?:(?i:{_any_of(_TITLES)})|[Mm]f[Gg])\.)",
    rf"((?:(?i:{_any_of(_ENDINGS)})|[Pp][Tt][ey]|{_any_of(_CAPITALISED_ENDINGS, capital=True)})\.){_TWO_MORE}",
    rf"((?i:{_any_of(_BEFORE_NUMBERS)})\.)\s?[{DIGITS}]",
    rf"((?:{_WORD}|{_JOINED}|{_NAMES})\.)[,;:]",
    rf"([{_AD}][{_AD}\xad.,]*(?:-(?:{_INITIALS}\.|[{_AD}\xad]+))+)",
    "((?i:anti|pro)-)",
    # Numbers: plain, mixed fractions, dates, telephones, currencies, and the letters that go with signs.
    rf"([-+]?(?:{_NUMBER}))",
    rf"((?:[{DIGITS}]{{1,4}}[- \xa0])?[{DIGITS}]{{1,4}}(?:\\?/|\u2044)[{DIGITS}]{{1,4}})",
    rf"([{DIGITS}]{{1,2}}[-/][{DIGITS}]{{1,2}}[-/][{DIGITS}]{{2,4}})",
    rf"((?:\([0-9]{{2,3}}\)[ \xa0]?|\+{{0,2}}(?:{_DIGIT_GROUP}){{1,2}})[0-9]{{3,4}}[ \xa0-]?[0-9]{{3,5}})",
    r"([A-Z]+\$)",
    r"([cC]\+\+|[cCfF]#)",
    rf"({_NAMES})",
    # The web.
    rf"((?i:https?)://(?:[{_ADDRESS}]+[{_ADDRESS_END}]|[{_ENTITY_MARKS}]))",
    rf"({_HOST})",
    rf"({_HOST}/(?:[{{}}{_ADDRESS}]+[{_ADDRESS_END}]|[{_ENTITY_MARKS}]))",
    rf"([{_LD}]+(?:\.[{_LD}]+)*\.(?i:{_any_of(_FILES)}))(?=[\s.,!?])",
    rf"(@[{_A}_][{_AD}_]*)",
    rf"(#[{_LM}]+)",
    rf"({_TAG})",
    # Faces.
    rf"([<>]?[:;=][-o*']?[()DPdpO\\@|\[\]{{])(?![{_AD}])",
    r"([-^x=~<>']_[-^x=~<>'])",
    r"(\([-^x=~<>'][_.]?[-^x=~<>']\))",
    # Entities of markup.
    r"(&(?:(?i:lt|gt)|#[0-9]+);)",
    r"(-(?i:[lr][rsc]b)-)",
    # Runs of signs, then single signs.
    r"([!?]+)",
    r"(#+)",
    r"(@+)",
    r"((?:\\\*)+|\*+)",
    r"(_+)",
    r"(-+)",
    r"(<<|>>)",
    r"(\.{3,5})",
    rf"([{_QUOTES}]{{1,2}}|''|'|[{_APOS_ENTITIES}])",
    rf"([{SYMBOLS}{_SIGN_ENTITIES}\u2026\xa2\xa3\xa4\u20a0\u20ac\xbc\xbd\xbe\u2153\u2154\x80!-/:-@\[-`{{-~])",
)

_SPELLING = {
    **{"&lt;": "<", "&gt;": ">"},
    **{"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"},
    **dict.fromkeys(('"', _PLAIN_QUOT_ENTITY), "''"),
    **{"\xa2": "cents", "\xa3": "#", **dict.fromkeys("\xa4\u20a0\u20ac\x80", "$")},
    **{"\xbc": "1/4", "\xbd": "1/2", "\xbe": "3/4", "\u2153": "1/3", "\u2154": "2/3", "\u2026": "..."},
    **{"--": "--", "---": "--", "----": "--", "...": "...", "....": "...", ".....": "..."},
}
_PLAIN_QUOTES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u201b\u2039\x91", "`"),
        **dict.fromkeys("\u2019\u203a\x92", "'"),
        **dict.fromkeys("\u201c\xab\x93", "``"),
        **dict.fromkeys("\u201d\xbb\x94", "''"),
        **_WRITTEN_OUT,
        "\ue002": "'",
    }
)
_WRITTEN = str.maketrans({**_WRITTEN_OUT, "\xad": "", "(": "-lrb-", ")": "-rrb-"})
_NAME = re.compile(rf"[A-Z+&{_AMP_ENTITY}]+\.?")
_MADE_OF_QUOTES = re.compile(rf"[{_QUOTES}{_APOS_ENTITIES}]+|{_APOS}{_AUXILIARY}|[nN]{_APOS_OR_TICK}[tT]")
_BLANK = re.compile(r"\s")
_ASCII_BLANKS = re.compile(r"[ \t]+")
# Tokens that may reach over a blank: markup, an initial before a sentence, fractions and telephones, `no. 5`.
_SPANNING = re.compile(
    rf"<[^>]*\s[^>]*>|[{_A}]\.\s+[A-Z<]|[0-9]\s[0-9]|\)\s[0-9]|(?i:(?:{_any_of(_BEFORE_NUMBERS)}))\.\s[{DIGITS}]"
)
_ENTITIES = {
    **{"&nbsp;": _NBSP_ENTITY, "&amp;": _AMP_ENTITY, **_DASH_ENTITIES},
    **{"&apos;": "\ue003", "&quot;": _QUOT_ENTITY, **_ACCENTED},
}
_ENTITY = re.compile("|".join(_ENTITIES), re.IGNORECASE | re.ASCII)
_NAME_WITH_AND = re.compile(rf"(?<![{_LMD}#@])[A-Z]+(?:[+&][A-Z]+)*\Z")
# Line breaks are blanks; and a character that stands for an entity here is one that the program does not know.
_CLEANED = str.maketrans({**dict.fromkeys("\n\r\v\f\x85\u2028\u2029", " "), **dict.fromkeys(_WRITTEN_OUT, "\uf8ff")})


def _mark_entity(match: re.Match[str]) -> str:
    """Return the character that an entity is read as; in `R&Amp;` there is none, for `R&A` is a name."""
    entity, name = match[0], match[0].lower()
    follows = match.string[match.end() : match.end() + 1]
    joins = name in _ACCENTED or (follows.isupper() if name == "&amp;" else name == "&apos;" and follows.isalpha())
    if entity[1].isupper() and not joins and _NAME_WITH_AND.search(match.string, 0, match.start()):
        return entity
    return {"&apos;": "\ue002", "&quot;": _PLAIN_QUOT_ENTITY}.get(entity) or _ENTITIES[name]


@cache
def _compile_patterns() -> tuple[re.Pattern[str], ...]:
    """Compile the rules for the first caption: at import they would take longer than all else that a run imports."""
    return tuple(re.compile(rule, re.ASCII) for rule in _RULES)


def _spell_token(token: str) -> str:
    """Write a token as the program does: brackets and money by name, plain quotes, lower case."""
    if (spelling := _SPELLING.get(token.lower())) is not None:
        return spelling
    if _MADE_OF_QUOTES.fullmatch(token):
        return token.translate(_PLAIN_QUOTES).lower()
    if _NAME.fullmatch(token):
        token = token.replace(_AMP_ENTITY, "&")
    return _BLANK.sub("\xa0", token.lower().translate(_WRITTEN))


def _cut_text(text: str) -> str:
    """Return the tokens of a text, joined by blanks, without the dropped punctuation."""
    text += "\n"  # a caption is a line: some rules want to see a blank after their token
    tokens = []
    at = 0
    while at < len(text):
        longest, end = None, at
        for rule in _compile_patterns():
            match = rule.match(text, at)
            if match and match.end() > end:
                longest, end = match, match.end()
        if longest is None:  # a blank, or a character that the program does not know and drops
            at += 1
            continue
        tokens.append(_spell_token(longest[1]))
        at = longest.end(1)
    return " ".join(token for token in tokens if token and token not in _DROPPED)


_cut_piece = lru_cache(maxsize=1 << 16)(_cut_text)


def tokenize(caption: str) -> str:
    """Return a caption's tokens, lower-cased and joined by single blanks, as pycocoevalcap's tokeniser gives them.

    The empty string if nothing but punctuation is left.

    Source: `PTBTokenizer` of Stanford CoreNLP 3.4.1 and `pycocoevalcap/tokenizer/ptbtokenizer.py`; see above for what
    is covered.

    >>> tokenize("A man (w/ hat) isn't eating 3 apples.")
    "a man -lrb- w / hat -rrb- is n't eating 3 apples"
    >>> tokenize("The dogs' T-shirts cost $5.00 & more...")
    'the dogs t-shirts cost $ 5.00 & more'
    """
    caption = caption.translate(_CLEANED)
    if "&" in caption:
        caption = _ENTITY.sub(_mark_entity, caption)
    if _SPANNING.search(caption):
        return _cut_text(caption)
    return " ".join(filter(None, map(_cut_piece, _ASCII_BLANKS.split(caption))))
