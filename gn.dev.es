buenas tardes
buenas tardes
buenas tardes
buenas tardes
buenas tardes
buenas tardes
buenas tardes
buenas tardes
buenas tardes
bien
